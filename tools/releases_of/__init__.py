"""In which releases of a library a defect is: claims are run with each, and patterns found in the sources of all."""

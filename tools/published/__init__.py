"""What people have published about the memory of their runs, beside what ``ds-lint memory`` says of them."""

"""The playground: ds-lint in the browser, by Pyodide; ``files`` builds what it consists of, ``links`` leads to it."""

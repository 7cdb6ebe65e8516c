"""`python -m barnabas` is the same as `barnabas`."""

from barnabas.cli.main import main

if __name__ == "__main__":
    main()

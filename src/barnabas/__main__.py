"""`python -m barnabas`, equivalent to the command `barnabas`."""

from barnabas.cli.main import main

if __name__ == "__main__":
    main()

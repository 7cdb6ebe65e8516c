"""The command `barnabas`, for spark-submit."""

from barnabas.cli.main import main

if __name__ == "__main__":
    main()

"""`python -m holon` is `holon`."""

from holon.cli.entry import main

if __name__ == "__main__":
    main()

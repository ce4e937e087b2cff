"""`python -m router`."""

from router.cli import main

main()

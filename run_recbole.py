"""RecBole's own command line, with this package's models beside RecBole's: ``recbole-asarrec train``."""

import sys

from recbole_asarrec.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))

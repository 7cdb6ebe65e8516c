"""Writes the generated pages of the documentation: `make docs`."""

from tools.doc_marks import ROOT
from tools.doc_pages import PAGES


def main() -> None:
    for path, page in PAGES.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page())
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

"""What answers about the libraries depended on, which tells how many older releases would have given the same."""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.record import Record, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.knowledge.records import StackLibrary, StackRecord, StackTable


class Trace(Record):
    """The releases of DeepSpeed, and the records about transformers and Accelerate, that answers depended on.

    ``first`` is a place in the list of DeepSpeed's releases: from there to the target, every answer is the same.
    """

    first: int = 0
    _tables: set[tuple[StackLibrary, StackTable]] = field(factory=set)  # library and table
    _records: list[tuple[StackLibrary, StackRecord]] = field(factory=list)  # library and record

    def starts_at(self, place: int) -> None:
        """Note that an answer is another one before this place in the list of DeepSpeed's releases."""
        self.first = max(self.first, place)

    def add_table(self, library: StackLibrary, name: StackTable) -> None:
        """Note that a table about transformers or Accelerate was read."""
        self._tables.add((library, name))

    def add_record(self, library: StackLibrary, record: StackRecord) -> None:
        """Note that one record about transformers or Accelerate was read."""
        self._records.append((library, record))

    def records(self, library: StackLibrary) -> list[StackRecord]:
        """Every record about transformers or Accelerate that the answers may depend on."""
        store = tables.load(library)
        names = sorted(name for of, name in self._tables if of == library)
        records: list[StackRecord] = [record for name in names for record in store.get(name, {}).values()]
        return records + [record for of, record in self._records if of == library]

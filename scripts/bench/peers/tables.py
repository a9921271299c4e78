"""What bench.sh peers asks of Iceberg tables, through the SQL catalog of PYICEBERG_HOME.

    tables.py unique TABLE COLUMN...     reads the columns; prints the rows, and how many of them are unique
    tables.py sum TABLE COLUMN           prints the rows, and the column's sum
"""

import sys

import pyarrow
import pyarrow.compute
from pyiceberg.catalog import load_catalog


def catalog():
    return load_catalog("lake")


def read(table, columns):
    return catalog().load_table(table).scan(selected_fields=tuple(columns)).to_arrow()


def unique(table, *columns):
    rows = read(table, columns)
    print(rows.num_rows, rows.group_by(list(columns)).aggregate([]).num_rows)


def total(table, column):
    rows = read(table, [column])
    print(rows.num_rows, pyarrow.compute.sum(rows[column]).as_py())


if __name__ == "__main__":
    {"unique": unique, "sum": total}[sys.argv[1]](*sys.argv[2:])

"""Arrow columns to framed values of a schema registry: Avro, JSON Schema and Protobuf, a column at a time.

fragments      binary columns and their concatenation, row by row
avro, json_text, protobuf   encoders by a schema
generating     schemas of Arrow types
registering    subjects; registration by the driver; `FramedFormat`, which tasks encode with
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.tables.encoding.fragments import Encode as Encode
    from barnabas.tables.encoding.generating import check_record_name as check_record_name
    from barnabas.tables.encoding.registering import RECORD as RECORD
    from barnabas.tables.encoding.registering import STRATEGIES as STRATEGIES
    from barnabas.tables.encoding.registering import FramedFormat as FramedFormat
    from barnabas.tables.encoding.registering import WriteFormat as WriteFormat
    from barnabas.tables.encoding.registering import framed_format as framed_format
else:
    __getattr__ = lazy_exports(__name__)

"""The language in which messages are declared: one class for all versions of a message.

    class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
        group_id: str = string()
        member_id: str = string("0-2")
        members: list[MemberIdentity] = array(MemberIdentity, "3+")

A field's declaration has the versions in which it is on the wire (default: all) and in which it may be null, its tag,
its default, and whether its value may be dropped in versions without it (`ignorable`). Every field has a default, as in
Kafka, so constructors take only the values that differ.

Declarations are cheap, because all families together have hundreds of classes: constructors are compiled on first use
of a class, codecs on first use of a (class, version) (see codec.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, dataclass_transform

from barnabas.protocol.wire import ZERO_UUID

UNBOUNDED = 0x7FFF

# Value of a `records` field: a memoryview after decoding; for encoding bytes, a memoryview, or any object
# whose len() is its size on the wire and which the transport can send.
Records = Any


class Versions(NamedTuple):
    """A closed range of versions; empty when last is below first."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read Kafka's notation: "3-13", "9+", "0" or "none"."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), UNBOUNDED)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def includes(self, version: int) -> bool:
        """Return whether a version is in the range."""
        return self.first <= version <= self.last


# `struct` codes of the types whose values always take the same number of bytes.
FIXED_WIDTH = {
    "boolean": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}


class Field:
    """One field of a message: its wire type and its versions."""

    __slots__ = (
        "default",
        "element",
        "ignorable",
        "is_secret",
        "name",
        "nullable",
        "tag",
        "versions",
        "wire",
    )

    def __init__(
        self,
        wire: str,
        versions: str,
        *,
        default: Any = None,
        nullable: str = "none",
        tag: int | None = None,
        ignorable: bool = False,
        element: Any = None,
        is_secret: bool = False,
    ) -> None:
        self.name = ""
        self.wire = wire
        self.versions = versions
        self.default = default
        self.nullable = nullable
        self.tag = tag
        self.ignorable = ignorable
        self.is_secret = is_secret  # not shown in the message's repr
        self.element = element  # the struct class, or the wire type of an array's elements

    def present_in(self, version: int) -> bool:
        """Return whether the field is on the wire in a version, tagged or not."""
        return Versions.parse(self.versions).includes(version)

    def nullable_in(self, version: int) -> bool:
        """Return whether the field may be null in a version."""
        return Versions.parse(self.nullable).includes(version)

    def tagged_in(self, version: int) -> bool:
        """Return whether the field is tagged; a field with a tag is tagged in all its versions."""
        return self.tag is not None and self.present_in(version)


def boolean(versions: str = "0+", *, default: bool = False, **options: Any) -> Any:
    """Declare a boolean, one byte."""
    return Field("boolean", versions, default=default, **options)


def int8(versions: str = "0+", *, default: int = 0, **options: Any) -> Any:
    """Declare a signed 8-bit number."""
    return Field("int8", versions, default=default, **options)


def int16(versions: str = "0+", *, default: int = 0, **options: Any) -> Any:
    """Declare a signed 16-bit number."""
    return Field("int16", versions, default=default, **options)


def uint16(versions: str = "0+", *, default: int = 0, **options: Any) -> Any:
    """Declare an unsigned 16-bit number."""
    return Field("uint16", versions, default=default, **options)


def int32(versions: str = "0+", *, default: int = 0, **options: Any) -> Any:
    """Declare a signed 32-bit number."""
    return Field("int32", versions, default=default, **options)


def uint32(versions: str = "0+", *, default: int = 0, **options: Any) -> Any:
    """Declare an unsigned 32-bit number."""
    return Field("uint32", versions, default=default, **options)


def int64(versions: str = "0+", *, default: int = 0, **options: Any) -> Any:
    """Declare a signed 64-bit number."""
    return Field("int64", versions, default=default, **options)


def float64(versions: str = "0+", *, default: float = 0.0, **options: Any) -> Any:
    """Declare an IEEE 754 double."""
    return Field("float64", versions, default=default, **options)


def uuid(versions: str = "0+", **options: Any) -> Any:
    """Declare a UUID, held as its 16 bytes."""
    return Field("uuid", versions, default=ZERO_UUID, **options)


def string(versions: str = "0+", *, default: str | None = "", **options: Any) -> Any:
    """Declare a UTF-8 string of at most 32,767 bytes."""
    return Field("string", versions, default=default, **options)


def byte_string(versions: str = "0+", *, default: bytes | None = b"", **options: Any) -> Any:
    """Declare a byte string, copied out of the input when decoded."""
    return Field("byte_string", versions, default=default, **options)


def record_batches(versions: str = "0+", **options: Any) -> Any:
    """Declare record batches: a view into the input when decoded, and any sized part when encoded."""
    return Field("records", versions, default=None, **options)


def structure(element: type[Struct], versions: str = "0+", **options: Any) -> Any:
    """Declare a nested struct; its default is a struct of defaults unless `default=None` says null."""
    options.setdefault("default", element)
    return Field("structure", versions, element=element, **options)


def array(element: Callable[..., Any] | type[Struct], versions: str = "0+", **options: Any) -> Any:
    """Declare an array of structs, or of the type of another declaration function."""
    options.setdefault("default", ())
    is_struct = isinstance(element, StructType)
    return Field("array", versions, element=element if is_struct else element.__name__, **options)


@dataclass_transform()
class StructType(type):
    """Turns the declarations in a class body into slots and keeps them as FIELDS."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> StructType:
        fields = tuple(value for value in namespace.values() if type(value) is Field)
        names = [key for key, value in namespace.items() if type(value) is Field]
        for field, field_name in zip(fields, names, strict=True):
            field.name = field_name
            del namespace[field_name]
        namespace["__slots__"] = tuple(names)
        if fields or "__setattr__" not in namespace:  # a read-only copy inherits the fields of its class
            namespace["FIELDS"] = fields
        return super().__new__(mcs, name, bases, namespace, **options)


class Struct(metaclass=StructType):
    """A part of a message: an array's element or a nested struct."""

    FIELDS: ClassVar[tuple[Field, ...]]
    __hash__: ClassVar[None]  # type: ignore[assignment]  # mutable values, like any dataclass with eq

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Compile the real constructor of this class, and install it."""
        cls = next(base for base in type(self).__mro__ if "FIELDS" in vars(base))
        constructor = _compile_constructor(cls)
        type.__setattr__(cls, "__init__", constructor)
        constructor(self, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or self.FIELDS is not other.FIELDS:
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={self._shown(field)}" for field in self.FIELDS)
        return f"{type(self).__name__}({values})"

    def _shown(self, field: Field) -> str:
        value = getattr(self, field.name)
        return "<hidden>" if field.is_secret and value else repr(value)


class Message(Struct):
    """A request, a response, or an internal record: a versioned struct."""

    NAME: ClassVar[str]
    api_key: ClassVar[int]
    min_version: ClassVar[int]
    max_version: ClassVar[int]
    first_flexible: ClassVar[int]
    decoders: ClassVar[dict[int, Callable[..., tuple[Any, int]]]]
    encoders: ClassVar[dict[int, Callable[[Any, bytearray, list[Any]], bytearray]]]

    def __init_subclass__(cls, *, versions: str = "", flexible: str = "none", api_key: int = -1) -> None:
        if not versions:  # the read-only copy of a declared class
            return
        cls.NAME = cls.__name__
        cls.api_key = api_key
        cls.min_version, cls.max_version = Versions.parse(versions)
        cls.first_flexible = UNBOUNDED if flexible == "none" else Versions.parse(flexible).first
        cls.decoders = {}
        cls.encoders = {}

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Return whether a version has compact lengths and tagged fields (KIP-482)."""
        return version >= cls.first_flexible


class _Unset:
    """Marks a constructor argument that was not given, where the default is a new list."""

    def __repr__(self) -> str:
        return "[]"


_UNSET = _Unset()


def _compile_constructor(cls: type[Struct]) -> Callable[..., None]:
    """Build `__init__` with one optional argument per field, in the order of declaration."""
    names: dict[str, Any] = {}
    parameters, body = ["self"], []
    for field in cls.FIELDS:
        fresh_list = field.default == ()
        names[f"default_{field.name}"] = _UNSET if fresh_list else default_value(field)
        parameters.append(f"{field.name}=default_{field.name}")
        value = f"[] if {field.name} is default_{field.name} else {field.name}" if fresh_list else field.name
        body.append(f"    self.{field.name} = {value}")
    source = f"def __init__({', '.join(parameters)}):\n" + "\n".join(body or ["    pass"])
    exec(source, names)  # built from declared names only
    constructor: Callable[..., None] = names["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


def default_value(field: Field) -> Any:
    """Return a field's default; structs share theirs, lists are created on use."""
    return shared_default(field.default) if isinstance(field.default, StructType) else field.default


def _refuse_change(self: object, *_: object) -> None:
    raise AttributeError(
        f"this {type(self).__name__} belongs to a shared default and is read-only; assign a new struct"
    )


class _ReadOnlyList(list[Any]):
    """The empty list in a shared default."""

    append = extend = insert = __iadd__ = _refuse_change  # type: ignore[assignment]


_shared_defaults: dict[StructType, Any] = {}


def shared_default(cls: Any) -> Any:
    """Return the shared read-only struct of defaults for fields that are not set.

    Most tagged structs are never set, and a Fetch response has three per partition: building them would cost
    more than the rest of the partition.
    """
    default = _shared_defaults.get(cls)
    if default is None:
        default = cls(**{field.name: _ReadOnlyList() for field in cls.FIELDS if field.default == ()})
        read_only = StructType(cls.__name__, (cls,), {"__setattr__": _refuse_change})
        default.__class__ = read_only
        _shared_defaults[cls] = default
    return default

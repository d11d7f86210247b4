"""Tool schemas as they are sent: relaxed and strict, checked against a corpus and by the services' own rules."""

from enum import IntEnum, StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.core.codec import Input, dumps, from_plain
from holon.providers.contract import ToolSpec
from holon.providers.schemas import SchemaMode, emit, problems_of, without_nulls
from holon.tools.registry import ToolRegistry, input_schema
from holon.tools.rest import SLEEP, enqueue_tool
from tests.providers.wires import ANTHROPIC, CODEX, RESPONSES
from twins import Twin
from twins.api import Refusal
from twins.strict_schemas import check_strict

BUILT_IN = ToolRegistry.of([SLEEP, enqueue_tool(lambda *_: None)]).specs()


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Node(Input, frozen=True, kw_only=True):
    """A node of a tree."""

    name: str
    note: str | None = None
    children: list["Node"] = msgspec.field(default_factory=list)


class Circle(Input, frozen=True, kw_only=True, tag="circle"):
    radius: Annotated[float, msgspec.Meta(gt=0)] = 1.0


class Square(Input, frozen=True, kw_only=True, tag="square"):
    side: float


class Everything(Input, frozen=True, kw_only=True):
    text: Annotated[str, msgspec.Meta(description="Words.", min_length=1)]
    tree: Annotated[Node, msgspec.Meta(description="A tree.")]
    shape: Circle | Square
    shapes: list[Circle | Square] = msgspec.field(default_factory=list)
    colour: Annotated[Colour, msgspec.Meta(description="A colour.")] = Colour.RED
    maybe_colour: Colour | None = None
    level: Level = Level.LOW
    word: Literal["yes", "no"] | None = None
    maybe_tree: Node | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1
    either: int | str | None = None
    flags: list[bool] | None = None
    nested: list[list[Colour]] = msgspec.field(default_factory=list)


class Tags(Input, frozen=True, kw_only=True):
    tags: dict[str, str] = msgspec.field(default_factory=dict)


class Free(Input, frozen=True, kw_only=True):
    value: Any = None


class Nothing(Input, frozen=True, kw_only=True):
    pass


class Forest(Input, frozen=True, kw_only=True):
    trees: list[Node]


CORPUS: list[type[msgspec.Struct]] = [Everything, Forest, Nothing]


def schemas_in(schema: Any):
    """Every object schema inside a schema, itself included."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" or "properties" in schema:
            yield schema
        for value in schema.values():
            yield from schemas_in(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from schemas_in(value)


@pytest.mark.spec("RT-200")
def test_the_schemas_of_built_in_tools_come_from_their_types_and_optional_fields_stay_optional():
    specs = {spec.name: spec.input_schema for spec in BUILT_IN}
    assert specs["Sleep"]["required"] == []
    assert specs["Enqueue"]["required"] == ["text"]
    assert specs["Sleep"] == input_schema(SLEEP.input_type)
    assert [problem for schema in specs.values() for problem in problems_of(schema)] == []


@pytest.mark.spec("RT-201")
@pytest.mark.parametrize("type_", CORPUS)
def test_relaxed_closes_every_object_and_leaves_the_rest_as_it_was(type_):
    source = input_schema(type_)
    before = dumps(source)
    relaxed = emit(source)
    assert all(each["additionalProperties"] is False for each in schemas_in(relaxed))
    assert relaxed == emit(source, SchemaMode.RELAXED)
    assert relaxed["required"] == source["required"]
    assert dumps(source) == before
    assert problems_of(relaxed, SchemaMode.RELAXED) == []


@pytest.mark.spec("RT-201")
def test_relaxed_closes_an_object_that_was_open():
    open_ = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}, "required": []}
    assert problems_of(open_) == ["$ takes fields that nobody named", "$.properties.a takes fields that nobody named"]
    assert problems_of(emit(open_)) == []


def test_relaxed_leaves_a_map_of_values_a_map():
    assert emit(input_schema(Tags))["properties"]["tags"]["additionalProperties"] == {"type": "string"}


@pytest.mark.spec("RT-202")
@pytest.mark.parametrize("type_", CORPUS)
def test_strict_closes_every_object_and_requires_all_its_fields_also_in_lists_unions_and_definitions(type_):
    strict = emit(input_schema(type_), SchemaMode.STRICT)
    for each in schemas_in(strict):
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])
    assert problems_of(strict, SchemaMode.STRICT) == []


@pytest.mark.spec("RT-203")
def test_strict_makes_what_was_optional_nullable_and_lists_null_in_enums():
    fields = emit(input_schema(Everything), SchemaMode.STRICT)["properties"]
    assert fields["text"]["type"] == "string"
    assert fields["count"]["type"] == ["integer", "null"]
    assert fields["colour"] == {
        "type": ["string", "null"],
        "description": "A colour.",
        "enum": ["blue", "red", None],
    }
    assert fields["maybe_colour"] == {"type": ["string", "null"], "enum": ["blue", "red", None]}
    assert fields["level"] == {"type": ["integer", "null"], "enum": [1, 2, None]}
    assert fields["word"] == {"type": ["string", "null"], "enum": ["no", "yes", None]}
    assert fields["maybe_tree"] == {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}
    assert fields["tree"] == {"description": "A tree.", "anyOf": [{"$ref": "#/$defs/Node"}]}
    assert fields["shapes"]["type"] == ["array", "null"]
    assert fields["nested"]["items"]["items"] == {"type": "string", "enum": ["blue", "red"]}


def test_what_strict_services_cannot_take_is_named_with_its_place():
    schema = {
        "type": "object",
        "properties": {"a": {"allOf": [{"type": "string"}]}, "b": {"$ref": "#/$defs/X", "description": "x"}},
        "required": ["a", "gone"],
        "additionalProperties": False,
    }
    assert problems_of(schema, SchemaMode.STRICT) == [
        "$ requires 'gone', which it does not have",
        "$ does not require 'b'",
        "$.properties.a has no type",
        "$.properties.a has 'allOf'",
        "$.properties.b points to #/$defs/X, which is not there",
        "$.properties.b has a $ref that does not stand alone",
    ]
    assert problems_of(emit(input_schema(Free), SchemaMode.STRICT), SchemaMode.STRICT) == [
        "$.properties.value has no type"
    ]
    assert problems_of({"type": "string"}) == ["$ is not an object"]


@pytest.mark.spec("RT-204")
@pytest.mark.parametrize("wire", [RESPONSES, CODEX, ANTHROPIC], ids=lambda wire: wire.id)
async def test_all_tools_pass_the_services_own_check_in_strict_mode(wire):
    corpus = [ToolSpec(name=type_.__name__, description="", input_schema=input_schema(type_)) for type_ in CORPUS]
    tools = [*BUILT_IN, *corpus]
    async with Twin.start() as twin, wire.open(twin, schema_mode=SchemaMode.STRICT) as provider:
        answer = await provider.respond(wire.asking("hello", tools=tools))
        (call,) = twin.calls
    assert answer.blocks
    assert len(call.request["tools"]) == len(tools)
    assert all(tool.get("strict", True) is True for tool in call.request["tools"])
    for spec in BUILT_IN:
        assert problems_of(emit(spec.input_schema, SchemaMode.STRICT), SchemaMode.STRICT) == []


def test_the_twin_refuses_a_strict_tool_that_was_not_made_strict():
    """So that the test above can fail."""
    with pytest.raises(Refusal):
        check_strict("Everything", emit(input_schema(Everything)), "tools")


nodes = st.recursive(
    st.builds(Node, name=st.text(max_size=3), note=st.none() | st.text(max_size=3)),
    lambda inner: st.builds(Node, name=st.text(max_size=3), children=st.lists(inner, max_size=2)),
    max_leaves=4,
)
calls = st.builds(
    Everything,
    text=st.text(min_size=1, max_size=5),
    tree=nodes,
    shape=st.builds(Circle, radius=st.just(2.0)) | st.builds(Square, side=st.just(3.0)),
    colour=st.sampled_from(Colour),
    maybe_tree=st.none() | nodes,
    either=st.none() | st.integers(0, 9) | st.text(max_size=3),
    flags=st.none() | st.lists(st.booleans(), max_size=2),
)


@given(calls)
def test_a_strict_call_in_which_what_is_left_out_is_null_is_the_call_that_was_meant(meant):
    strict = emit(input_schema(Everything), SchemaMode.STRICT)
    filled = dict.fromkeys(strict["properties"]) | msgspec.to_builtins(meant)
    assert from_plain(without_nulls(filled, input_schema(Everything)), Everything) == meant


def test_nulls_are_left_out_at_every_depth_and_kept_where_they_are_required():
    call = {
        "text": "x",
        "count": None,
        "tree": {"name": "a", "note": None, "children": [{"name": "b", "note": None, "children": None}]},
        "shape": {"type": "circle", "radius": None},
        "unknown": None,
    }
    assert without_nulls(call, input_schema(Everything)) == {
        "text": "x",
        "tree": {"name": "a", "children": [{"name": "b"}]},
        "shape": {"type": "circle"},
        "unknown": None,
    }

"""Rendering: an admitted message as the model reads it, with its provenance in front of its content."""

from __future__ import annotations

import re

from holon.core.codec import InvalidShape, from_plain
from holon.core.messages import (
    CallbackOrigin,
    ChannelOrigin,
    JsonBody,
    MessageEnvelope,
    MessageKind,
    MessageOrigin,
    OperatorOrigin,
    SystemOrigin,
    TaskOrigin,
    TimerOrigin,
    WebhookOrigin,
    body_text,
)
from holon.core.provenance import labels_for
from holon.core.triggers import WAKE_HINT, WakeHint

#: What would let a name end the header line or begin another one.
_UNSAFE = re.compile(r"[\[\]·\x00-\x1f\x7f\u0085\u2028\u2029]")

#: Lines in content from elsewhere that look like the runtime's own: they are marked, so that nobody speaks for it.
_FORGED = re.compile(
    rf"^\s*\[(?:(?:{'|'.join((*MessageKind, WAKE_HINT))}) from |context:|the runtime |earlier conversation)",
    re.MULTILINE,
)

#: A trigger's URL. It comes into a prompt only if somebody writes it into a message, to have it configured somewhere.
_TRIGGER_URL = re.compile(r"/callbacks/(?:wake|enqueue)/cb_\w")
_SECRET = (
    "\n[the runtime says: the /callbacks/ URL above is a capability secret: do not repeat, store or forward it,"
    " except to configure what is to wake you from outside]"
)


def render_input(envelope: MessageEnvelope) -> str:
    """`[<kind> from <origin> · <authority> · via <surface>, <admission> · <id>]`, then the body."""
    text = _hints(envelope) or (envelope.text if envelope.from_owner else _quoted(envelope.text))
    came = f"{envelope.kind} from {origin_words(envelope.origin)}"
    way_in = f"via {envelope.delivery_surface}, {envelope.admission_context}"
    secret = _SECRET if _TRIGGER_URL.search(text) else ""
    return f"[{came} · {envelope.authority_class} · {way_in} · {envelope.id}]\n{text}{secret}"


def _hints(envelope: MessageEnvelope) -> str:
    """The hints of a tick: each under a line of its own that says whose word it is."""
    if envelope.kind is not MessageKind.SYSTEM_TICK or not isinstance(envelope.body, JsonBody):
        return ""
    try:
        hints = from_plain(envelope.body.value["wake_hints"], list[WakeHint])
    except (KeyError, TypeError, InvalidShape):
        return ""
    lost = envelope.body.value.get("also_coalesced")
    return "\n".join([f"({lost} earlier hints were not kept)"] * bool(lost) + [_hint(hint) for hint in hints])


def _hint(hint: WakeHint) -> str:
    asked = hint.external_trigger_id is None  # by an operator: then the reason is all there is
    facts = [
        f"source {hint.source}" if asked and hint.source else "",
        f"about {hint.resource}" if hint.resource else "",
        hint.content_type or "",
    ]
    labels = [str(labels_for(hint.origin)[1]), *(_words(fact) for fact in facts if fact), hint.id]
    line = f"[{WAKE_HINT} from {origin_words(hint.origin)} · {' · '.join(labels)}]"
    said = hint.reason if asked else body_text(hint.body)
    return f"{line}\n{_quoted(said)}" if said else line


def _quoted(text: str) -> str:
    return _FORGED.sub(r"(quoted) \g<0>", text)


def origin_words(origin: MessageOrigin) -> str:
    """Where it came from, in words that cannot break out of the header: outsiders choose some of them."""
    return _words(_origin_words(origin))


def _words(text: str) -> str:
    return " ".join(_UNSAFE.sub(" ", text).split())[:120]


def _origin_words(origin: MessageOrigin) -> str:
    match origin:
        case OperatorOrigin(actor_id=actor):
            return f"operator {actor}" if actor else "operator"
        case ChannelOrigin(channel_id=channel, sender_id=sender):
            return f"channel {channel}" + (f" ({sender})" if sender else "")
        case WebhookOrigin(source=source, event_type=event_type):
            return f"webhook {source}" + (f" ({event_type})" if event_type else "")
        case CallbackOrigin(descriptor_id=descriptor, source=source):
            return f"callback {descriptor}" + (f" ({source})" if source else "")
        case TimerOrigin(timer_id=timer):
            return f"timer {timer}"
        case SystemOrigin(subsystem=subsystem):
            return f"system {subsystem}"
        case TaskOrigin(task_id=task):
            return f"task {task}"

"""The freeform grammar as a provider takes it. Apart from its parser, which is loaded with the first patch."""

from __future__ import annotations

#: For a custom tool (Lark, as the providers' grammar tools take it). The parser takes all of this, and a little more.
GRAMMAR = r"""start: "*** Begin Patch" LF file+ "*** End Patch" LF?
file: add | delete | update
add: "*** Add File: " TEXT LF added+
delete: "*** Delete File: " TEXT LF
update: "*** Update File: " TEXT LF (move change* | change+)
move: "*** Move to: " TEXT LF
change: place* line+ end?
place: "@@" (" " TEXT)? LF
line: (" " | "+" | "-") TEXT? LF no_newline?
added: "+" TEXT? LF no_newline?
no_newline: "\\ No newline at end of file" LF
end: "*** End of File" LF
TEXT: /[^\n]+/
%import common.LF
"""

"""What typer finds wrong in the words that were typed, in our words."""

from __future__ import annotations

import re
from typing import Any


def usage_fault(error: Any) -> str:
    """The line of a usage error, with what was found."""
    from ..formats.near import did_you_mean
    from ..formats.toml import in_our_words

    message = " ".join(error.format_message().split())
    if unknown := re.match("No such command '(.*?)'", message):
        known = error.ctx.command.list_commands(error.ctx)
        hint = did_you_mean(unknown[1], known, f"known: {', '.join(known)}")
        return f'unknown command "{unknown[1]}"; {hint}'
    if more := re.match(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", message):
        writes = any("--output" in parameter.opts for parameter in error.ctx.command.params)
        output = "name an output with -o, and " if writes else ""
        return f'expected no more arguments, found "{more[1]}"; {output}put a value with spaces, < or > in quotes'
    if message.startswith("Missing "):
        missing = error.param
        option = missing.param_type_name == "option"
        name = max(missing.opts, key=len) if option else missing.metavar or missing.name.upper()
        return f"expected {name}, found none; its help: {missing.help.rstrip('.')}"
    if meant := re.search(r" \(Possible options: (.*)\)", message):
        message = f"{message[: meant.start()]}; did you mean {meant[1].replace(', ', ' or ')}?"
    message = re.sub("^No such option: ", "unknown option ", in_our_words(message))
    message = re.sub(r"^Option '(\S+)' requires an argument\.$", r"\1: expected a value, found none", message)
    message = re.sub(
        r"^Option '(\S+)' does not take a value\.$", r"\1: expected no value, found one; leave it out", message
    )
    message = re.sub(r"^Invalid value for '(.*?)': ", r"\1: ", message)
    if other := re.match(r"(\S+): '(.*)' is not one of (.*)\.$", message):
        option, given, known = other.groups()
        return '{}: expected one of {}, found "{}"'.format(option, known.replace("'", ""), given)
    if isinstance(error.__cause__, ValueError) and hasattr(error.__cause__, "errors"):
        given = str(error.__cause__.errors()[0]["input"])
        message += "" if repr(given) in message else f', found "{given}"'
    return message

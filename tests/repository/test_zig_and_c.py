"""pipemill.zig says again what pipemill.h declares: the functions, structs and enums of both are the same."""

import pathlib
import re

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
HEADER = (EXAMPLES / "decoder-c/src/pipemill.h").read_text()
MODULE = (EXAMPLES / "decoder-zig/src/pipemill.zig").read_text()

#: The types that both sides have, by their names in C.
TYPES = {
    "pm_string": "String",
    "pm_option_spec": "OptionSpec",
    "pm_extension": "Extension",
    "pm_info": "Info",
    "pm_chunk": "Chunk",
    "pm_answer": "Answer",
    "pm_resynced": "Resynced",
    "pm_range": "Range",
    "pm_piece": "Piece",
    "pm_part": "PartSpec",
    "pm_step": "Step",
    "pm_scalar": "Scalar",
    "pm_pair": "Pair",
    "pm_field_spec": "FieldSpec",
    "pm_block": "Block",
    "pm_place": "Place",
    "pm_column": "Column",
    "pm_level": "Level",
    "uint8_t": "u8",
    "uint32_t": "u32",
    "uint64_t": "u64",
    "int64_t": "i64",
    "size_t": "usize",
    "bool": "bool",
    "void": "void",
}
#: The names that members and parameters have in Zig, where these are keywords, or functions.
MEMBERS = {"resume": "at", "error": "failure", "extensions": "extension_list"}
#: The functions that the author writes, by the names of those that call them in Zig.
WRITTEN = {
    f"pm_{name}": name for name in ("options", "open", "decode", "resync", "plan", "prepare", "save", "load")
} | {"pm_companions": "declare"}
#: What Zig has by itself, or by `number` and `numbers`.
ONLY_C = re.compile(r"pm_(text|bool|format|equal|[iuf](8|16|32|64)s?|export_\w+)|mem\w+|strlen")


def c_type(words):
    words = words.replace("const", "").strip()
    return "pointer" if "*" in words else TYPES[words]


def c_members(text):
    """The types and names of the members of a struct, or of the parameters of a function."""
    members = []
    for part in filter(None, (part.strip() for part in text)):
        if "(*" in part:
            members.append(("pointer", re.search(r"\(\*(\w+)\)", part)[1]))
            continue
        kind, name = re.fullmatch(r"(.*?)(\w+)(?:, \*?\w+)*", part, re.S).groups()
        others = re.findall(r", (\*?)(\w+)", part)
        members.append((c_type(kind), name))
        members += [(c_type(kind.replace("*", "") + star), other) for star, other in others]
    return [(kind, MEMBERS.get(name, name)) for kind, name in members]


def divided(text):
    """The parts between commas that are not inside of parentheses."""
    return re.split(r",(?![^()]*\))", text)


def of_header(text):
    """The functions of the header, its structs and its enums."""
    text = re.sub(r"//.*|^#.*(?:\\\n.*)*", "", text, flags=re.M)
    text = re.sub(r'__attribute__\(\(.*?\)\)|PM_EXPORT\(".*?"\)', "", text)
    structs, enums, functions = {}, {}, {}
    for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", text, re.S):
        structs[name] = c_members(body.split(";"))
    for body, name in re.findall(r"typedef enum \{(.*?)\} (\w+);", text, re.S):
        enums[name] = re.sub(r"\s|PM_", "", body).lower()
    text = re.sub(r"typedef .*?\} \w+;", "", text, flags=re.S)
    text = re.sub(r"^(static inline .*?|[^\n]*\) )\{\n.*?^\}", "", text, flags=re.S | re.M)
    for result, name, parameters in re.findall(r"([\w ]+?[ *]+)(\w+)\(((?:[^()]|\([^()]*\))*)\);", text):
        if not ONLY_C.fullmatch(name):
            parameters = "" if parameters == "void" else parameters
            functions[name] = (c_type(result), c_members(divided(parameters)))
    return functions, structs, enums


def zig_type(words):
    words = words.strip()
    if re.match(r"\??(\[\*|\*|Text$|Lowered$)", words):
        return "pointer"
    return {"noreturn": "void"}.get(words, words)


def zig_members(parts):
    parts = [re.sub(r"///.*", "", part).split("=")[0].strip() for part in parts]
    named = [re.fullmatch(r"@?\"?(\w+)\"?: (.*)", part, re.S) for part in parts if part]
    return [(zig_type(match[2]), match[1]) for match in named if match]


def of_module(text):
    """The same of the module, by the names in C."""
    names = {zig: c for c, zig in TYPES.items()}
    structs, enums, functions = {}, {}, {}
    for name, body in re.findall(r"const (\w+) = extern struct \{(.*?)\};", text, re.S):
        # Functions of the struct come after its members.
        body = re.sub(r"///.*", "", body.split("pub fn")[0])
        structs[names[name]] = zig_members(body.split(","))
    for name, body in re.findall(r"const (\w+) = enum\(c_int\) \{(.*?)\};", text, re.S):
        enums[names[name]] = re.sub(r'\s|@|"', "", body).rstrip(",")
    for name, parameters, result in re.findall(r"^extern fn (\w+)\((.*)\) (.+);$", text, re.M):
        functions[name] = (zig_type(result), zig_members(divided(parameters)))
    written = {zig: c for c, zig in WRITTEN.items()}
    for name, parameters, result in re.findall(r"fn (\w+)\((.*?)\) callconv\(\.c\) (\S+) \{", text):
        # The first of a name is the author's.
        if name in written and written[name] not in functions:
            functions[written[name]] = (zig_type(result), zig_members(divided(parameters)))
    return functions, structs, enums


def differences(header, module):
    """What one side has, and the other has not, or has in another way."""
    of_c, of_zig = of_header(header), of_module(module)
    return [
        f"{name}: {c.get(name)} in C, {zig.get(name)} in Zig"
        for c, zig in zip(of_c, of_zig)
        for name in sorted(c.keys() | zig.keys())
        if c.get(name) != zig.get(name)
    ]


def test_they_are_the_same():
    assert differences(HEADER, MODULE) == []


def test_all_are_compared():
    functions, structs, enums = of_header(HEADER)
    known = {name for name in TYPES if name.startswith("pm_")}
    assert structs.keys() | enums.keys() == known
    assert len(functions) > 50 and WRITTEN.keys() <= functions.keys()


@pytest.mark.parametrize(
    "old, new",
    [
        ("size_t begin, size_t end, uint64_t skip", "size_t end, size_t begin, uint64_t skip"),
        ("pm_answer pm_more(size_t consumed);", "pm_answer pm_more(uint64_t consumed);"),
        ("bool pm_is_on(", "uint32_t pm_is_on("),
        ("    bool last; ", "    uint32_t last; "),
        ("    pm_string key, value;", "    pm_string value, key;"),
        ("PM_INT8, PM_INT16,", "PM_INT16, PM_INT8,"),
        ("pm_string pm_save(void);", "void pm_save(void);"),
        ("void pm_flush(void);", "void pm_flush(void);\nvoid pm_new(void);"),
    ],
)
def test_a_change_of_the_header_is_found(old, new):
    assert old in HEADER
    assert differences(HEADER.replace(old, new, 1), MODULE) != []


@pytest.mark.parametrize(
    "old, new",
    [
        ("extern fn pm_take(length: usize)", "extern fn pm_take(length: u64)"),
        ("extern fn pm_absent() void;\n", ""),
        ("    need: u32,\n    more: bool,", "    more: bool,\n    need: u32,"),
        ("consumed: usize, found: bool", "found: bool, consumed: usize"),
        ("{ debug = 1,", "{ debug = 2,"),
        ("fn open(info: *const Info) callconv", "fn open(info: Info) callconv"),
    ],
)
def test_a_change_of_the_module_is_found(old, new):
    assert old in MODULE
    assert differences(HEADER, MODULE.replace(old, new, 1)) != []

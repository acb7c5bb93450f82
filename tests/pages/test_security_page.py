"""docs/security.md: its limits are those of the program, and each of its rows has a test."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "Mi": 1 << 20}
#: The start of a row or sentence of the page, and the constant that it tells.
LIMITS = {
    "| log lines |": ("host/decode/src/call/host_state.rs", "MAX_LOG_MESSAGES"),
    "| its schema |": ("host/decode/src/call/host_state.rs", "MAX_FIELDS"),
    "| metadata of an object |": ("host/decode/src/call/metadata.rs", "MAX_METADATA_BYTES"),
    "| its plan of an object |": ("host/planned/src/ask.rs", "MAX_PLAN_BYTES"),
    "| bytes that are read for a plan |": ("host/planned/src/ask.rs", "MAX_READ_BYTES"),
    "| companions of an object |": ("host/types/src/companions.rs", "MAX_COMPANIONS"),
    "| a file that an option names |": ("host/decode/src/with_options.rs", "MAX_FILE_BYTES"),
    "| its options |": ("host/decode/src/plugin.rs", "MAX_OPTIONS"),
    "| bytes of code |": ("host/decode/src/compile/compile_limits.rs", "MAX_CODE_BYTES"),
    "| functions |": ("host/decode/src/compile/compile_limits.rs", "MAX_FUNCTIONS"),
    "| types of functions |": ("host/decode/src/compile/compile_limits.rs", "MAX_TYPES"),
    "| bytes in one function |": ("host/decode/src/compile/compile_limits.rs", "MAX_FUNCTION_BYTES"),
    "| bytes of one function times": ("host/decode/src/compile/compile_limits.rs", "MAX_FUNCTION_VARIABLES"),
    "| parts of components": ("host/decode/src/compile/compile_limits.rs", "MAX_COMPONENT_PARTS"),
    "| functions, globals and bytes": ("host/decode/src/compile/compile_limits.rs", "MAX_MODULE_PARTS"),
    "| components in each other |": ("host/decode/src/compile/compile_limits.rs", "MAX_DEPTH"),
    "| tables |": ("host/decode/src/compile/compile_limits.rs", "MAX_TABLES"),
    "| bytes of types, imports": ("host/decode/src/compile/compile_limits.rs", "MAX_DESCRIPTION_BYTES"),
    "| bytes of names of functions |": ("host/decode/src/compile/compile_limits.rs", "MAX_NAME_BYTES"),
    "This process may use": ("host/decode/src/compile/compiler_process.rs", "MAX_MEMORY"),
    "A list has at most": ("host/source/src/walk.rs", "MAX_FOLDERS"),
    "| a page of a list": ("host/source/src/s3/limit.rs", "MAX_BODY_BYTES"),
    "| damage `decoder.toml`, or make it large |": ("host/lock/src/decoder_file.rs", "MAX_BYTES"),
    "| a key |": ("host/source/src/s3/address.rs", "MAX_KEY_BYTES"),
    "| a manifest |": ("host/source/src/s3/manifest.rs", "MAX_MANIFEST_BYTES"),
    "| a line of an augmented manifest |": ("host/source/src/s3/manifest.rs", "MAX_LINE_BYTES"),
    "| objects of a list that is shuffled": ("host/source/src/s3/entry.rs", "MAX_SHUFFLED"),
}


def constant(file, name):
    """The value of a constant: a number, or one shifted."""
    text = (ROOT / file).read_text()
    (found,) = re.findall(rf"const {name}: \w+ = ([\d_]+)(?: << (\d+))?;", text)
    return int(found[0]) << int(found[1] or 0)


def first_number(text):
    number, unit = re.search(r"([\d,]*\d)(?: (KiB|MiB|GiB|Mi)\b)?", text).groups()
    return int(number.replace(",", "")) * UNITS.get(unit, 1)


@pytest.mark.parametrize("row", LIMITS)
def test_a_limit(row):
    assert PAGE.count(row) == 1
    rest = PAGE[PAGE.index(row) + len(row) :]
    # In a table, the limit is the last cell but what may follow it.
    assert first_number(rest) == constant(*LIMITS[row])


def test_each_limit_of_compiling_is_told():
    text = (ROOT / "host/decode/src/compile/compile_limits.rs").read_text()
    told = {name for file, name in LIMITS.values() if file.endswith("compile_limits.rs")}
    assert set(re.findall(r"^const (MAX_\w+)", text, re.M)) == told


APART = "tests/delivery/apart.rs"
LOCK = "tests/plugin/test_lock.py"
WITH_DATA = "tests/plugin/test_data_decoder.py"
MEMORY = "tests/memory/account.rs"
MISDEEDS = "tests/sandbox/misdeeds.rs"
PREPARE = "tests/sandbox/prepare.rs"
COMPILING = "tests/sandbox/compiling.rs"
S3 = "tests/sources/s3/hostile.rs"
CHAOS = "tests/delivery/chaos/main.rs", "nothing_is_lost_and_nothing_is_acked_twice"
#: The start of a row, and the test of it: its file, and its name or that of its case. Where the row is about what a
#: channel does, records of a second channel are counted in the test.
TESTS = {
    "| `limits.memory`,": (MISDEEDS, '"alloc"'),
    "| `limits.call_timeout`,": (MISDEEDS, '"spin"'),
    "| `limits.output`,": (MISDEEDS, '"emit-forever"'),
    "| `max_record` |": (MISDEEDS, '"large-record"'),
    "| log lines |": (APART, "a decoder logs without end"),
    "| its schema |": (MISDEEDS, '"huge-schema"'),
    "| metadata of an object |": (MISDEEDS, '"much-metadata"'),
    "| its plan of an object |": (MISDEEDS, '"plan-large"'),
    "| bytes that are read for a plan |": (MISDEEDS, '"plan-much"'),
    "| companions of an object |": (MISDEEDS, '"companions-many"'),
    "| a file that an option names |": (PREPARE, "files of options may have 268435456"),
    "| what it prepares |": (PREPARE, "the_limits_of_the_channel_hold"),
    "| its options |": ("host/decode/tests/sandbox/hostile.rs", "a_decoder_with_too_many_options_is_refused"),
    "| the ring's slots, batches that": (APART, "batches are too large"),
    "| the memory of the decoder of": (MISDEEDS, '"alloc"'),
    "| what a call of each decoder": (MISDEEDS, '"emit-forever"'),
    "| the input that each decoder": (MISDEEDS, '"endless-need"'),
    "| a user's plugin that writes": (APART, "a decoder writes into its window"),
    "| what workers decode ahead": (APART, "workers skip errors"),
    "| what the inputs of a mix": (APART, "an input of a mix is broken"),
    "| inflating an object:": (MEMORY, "windows_of_zstd"),
    "| plans of objects,": (MISDEEDS, '"plan-huge"'),
    "| errors that are skipped |": (MEMORY, "errors_that_workers_skip"),
    "| positions of batches,": ("host/delivery/src/recent.rs", "the_last_batches_are_found_and_older_ones_are_forgotten"),
    "| code, threads and compiled": ("tests/memory/mod.rs", "the_hosts_own_memory_stays_flat"),
    "| [lines of the log that wait]": ("host/telemetry/src/log_lines.rs", "the_oldest_lines_are_dropped_and_counted_and_errors_stay"),
    "| connections that receive": (
        "ring/tests/ring/hostile_consumers.rs",
        "thousands_of_connections_leave_no_descriptors_or_memory",
    ),
    "| requests for metrics,": ("tests/telemetry/slow_clients.rs", "slow_clients_do_not_delay_a_probe"),
    "| what is fetched from S3": (
        "host/source/tests/s3/pauses.rs",
        "no_more_than_the_budget_is_fetched_ahead_of_a_paused_consumer",
    ),
    "| bytes in its file,": ("host/decode/tests/sandbox/hostile.rs", "a_file_that_is_too_large_is_not_even_read"),
    "| bytes of code |": (COMPILING, '"much code"'),
    "| functions |": (COMPILING, '"many functions"'),
    "| types of functions |": (COMPILING, '"many types"'),
    "| bytes in one function |": (COMPILING, '"a huge function"'),
    "| bytes of one function times": (COMPILING, '"many variables"'),
    "| parts of components": (COMPILING, '"chained components"'),
    "| functions, globals and bytes": (COMPILING, '"many instances of a module"'),
    "| components in each other |": (COMPILING, '"deep components"'),
    "| tables |": (COMPILING, '"many tables"'),
    "| bytes of types, imports": (COMPILING, '"many globals"'),
    "| bytes of names of functions |": (COMPILING, '"long names"'),
    "- It can ACK a batch": (APART, "a consumer ACKs what it has not read"),
    "- In mode `share`,": (APART, "a consumer ends epochs"),
    "- It can end the [pass]": (APART, "a consumer takes the place of another"),
    "- It can hold batches,": (APART, "a consumer holds all that it gets"),
    "- It can request [views]": (
        "ring/tests/ring/views.rs",
        "other_consumers_read_batches_with_views_and_get_none_when_the_last_viewer_has_gone",
    ),
    "- It can hang up before": (APART, "a consumer hangs up before its ACK"),
    "- It protects against a file": (LOCK, "test_a_changed_or_missing_file_is_refused_before_it_runs"),
    "- It does not say whether": (LOCK, "test_a_plugin_of_the_web"),
    "- Whoever can write `pipemill": (LOCK, "test_the_lock_file_is_that_of_the_configuration_or_of_the_folder"),
    "- Name, version, authors": (LOCK, "test_the_description_of_a_plugin_is_shown"),
    "- Whatever it is, a plugin runs": (MISDEEDS, '"alloc"'),
    "| name any plugin |": (WITH_DATA, "test_without_trust_it_is_said_and_nothing_of_it_is_used"),
    "| take the file away,": (WITH_DATA, "test_a_run_does_not_go_on_with_another_decoder"),
    "| name another plugin that": (WITH_DATA, "test_a_plugin_that_replaces_a_trusted_one_is_not_trusted_for_it"),
    "| set options of the trusted": (WITH_DATA, "test_options_of_the_reader_go_before_those_of_the_data"),
    "| name an address |": (WITH_DATA, "test_addresses_that_data_may_not_name"),
    "| damage `decoder.toml`,": (WITH_DATA, "test_a_damaged_file_is_refused_where_something_is_trusted"),
    "| a consumer |": CHAOS,
    "| the command |": CHAOS,
    "| the host |": CHAOS,
    "| the writer of a FIFO |": CHAOS,
    "| the S3 server |": CHAOS,
    "| a page of a list": (S3, "a_list_without_end_is_refused"),
    "| the time of such an answer": (S3, "credentials_that_dribble_are_given_up"),
    "| the time until credentials": (S3, "credentials_that_dribble_are_given_up"),
    "| pages of a list in a row": (S3, "a_list_that_goes_on_for_ever_is_refused"),
    "| keys of a list |": (S3, "a_list_that_goes_on_for_ever_is_refused"),
    "| bytes of an object that come": (S3, "a_body_that_dribbles_is_given_up"),
    "| a key |": (S3, "a_key_of_a_megabyte_is_refused"),
    "| a manifest |": (S3, "a_manifest_of_many_short_elements_needs_little_memory"),
    "| a line of an augmented manifest |": (
        "host/source/src/s3/manifest.rs",
        "a_line_that_is_too_long_is_refused_unread",
    ),
}
#: Rows without a test, and the reason.
UNTESTED = {
    "| objects of a list that is shuffled": "17 million objects take 3 GiB",
    "- a decoder that uses all of its CPU time": "not protected against",
    "- timing and cache side channels": "not protected against",
    "- another process of the same user": "not protected against",
}


def rows():
    """The rows of all tables, without their heads, and the items of all lists."""
    lines = PAGE.splitlines()
    for at, line in enumerate(lines):
        is_head = line.startswith("|--") or lines[at + 1 : at + 2] and lines[at + 1].startswith("|--")
        if line.startswith("- ") or line.startswith("|") and not is_head:
            yield line


def test_each_row_has_a_test():
    known = [*TESTS, *UNTESTED]
    for row in rows():
        assert sum(row.startswith(start) for start in known) == 1, row
    for start in known:
        assert sum(row.startswith(start) for row in rows()) == 1, start


@pytest.mark.parametrize("row", TESTS)
def test_the_test_of_a_row_is_there(row):
    file, name = TESTS[row]
    text = (ROOT / file).read_text()
    if re.fullmatch(r"\w+", name):
        # In Rust, or in Python.
        assert len(re.findall(rf"#\[test\]\n *fn {name}\(|^def {name}\(", text, re.M)) == 1
    else:
        assert name in text

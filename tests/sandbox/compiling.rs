//! A plugin that is expensive to compile is refused, or compiled in a process that can be ended.

use std::fs;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pipemill_decode::{COMPILE_STDIN, Engine, Plugin};
use pipemill_tests::host;
use pipemill_tests::process::{Ended, Process, state};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{pipemill, until};

/// A number as WebAssembly has it.
fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A section of a module or component.
fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id][..], &leb(content.len()), content].concat()
}

/// A list of `count` equal items.
fn list(item: &[u8], count: usize) -> Vec<u8> {
    [leb(count), item.repeat(count)].concat()
}

/// A component that contains a module with these sections.
fn component(sections: &[Vec<u8>]) -> Vec<u8> {
    let module = [b"\0asm\x01\0\0\0", &*sections.concat()].concat();
    [b"\0asm\x0d\0\x01\0", &*section(1, &module)].concat()
}

/// A component with `count` equal functions without parameters.
fn functions(body: &[u8], count: usize) -> Vec<u8> {
    let body = [&leb(body.len()), body].concat();
    component(&[
        section(1, &list(&[0x60, 0, 0], 1)),
        section(3, &list(&[0], count)),
        section(10, &list(&body, count)),
    ])
}

/// The body of a function with `locals` variables: `block` again and again, `size` bytes in all.
fn body(locals: usize, block: &[u8], size: usize) -> Vec<u8> {
    let declared = if locals == 0 { vec![0] } else { [&[1][..], &leb(locals), &[0x7f]].concat() };
    [declared, block.repeat(size / block.len()), vec![0x0b]].concat()
}

const NOP: &[u8] = &[0x01];
/// `block end`
const BLOCK: &[u8] = &[0x02, 0x40, 0x0b];
/// `local.get 0, i32.const 77, i32.add, local.set 0`
const ADD: &[u8] = &[0x20, 0, 0x41, 0xcd, 0, 0x6a, 0x21, 0];

/// Components in each other, each of which instantiates the one inside it twice.
fn nested(levels: usize) -> String {
    (0..levels).fold("(component)".to_owned(), |inner, _| {
        let inner = inner.replacen("(component", "(component $inner", 1);
        format!(
            "(component {inner} (instance (instantiate $inner)) (instance (instantiate $inner)))"
        )
    })
}

/// Components that each instantiate the one before them twice: not in each other, but side by side.
fn chained(levels: usize) -> String {
    let link = |level: usize| {
        let alias = "(alias outer $all $c";
        let before = level - 1;
        format!(
            "(component $c{level} {alias}{before} (component $b)) (instance (instantiate $b)) \
             (instance (instantiate $b)))"
        )
    };
    let links: String = (1..=levels).map(link).collect();
    format!("(component $all (component $c0) {links} (instance (instantiate $c{levels})))")
}

/// What is too expensive, and what is said of it.
fn bombs() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let text = |text: &str| wat::parse_str(text).expect("a component");
    let wide = [&[0x60][..], &leb(900), &[0x7f].repeat(900), &[0]].concat();
    let wide = component(&[
        section(1, &list(&wide, 1)),
        section(3, &list(&[0], 1)),
        section(10, &list(&[&leb(100_002)[..], &body(0, NOP, 100_000)].concat(), 1)),
    ]);
    vec![
        ("deep components", text(&nested(16)), "it has 17 components in each other"),
        (
            "chained components",
            text(&chained(22)),
            "parts of components, those of all instances included",
        ),
        (
            "many instances of a module",
            text(&format!(
                "(component (core module $m {}) {})",
                "(global i32 (i32.const 0))".repeat(5_000),
                "(core instance (instantiate $m))".repeat(100)
            )),
            "it has 405000 functions, globals and elements, those of all instances included",
        ),
        (
            "an imported module",
            text("(component (import \"m\" (core module $m)) (core instance (instantiate $m)))"),
            "instantiates a module that it imports",
        ),
        (
            "an imported component",
            text("(component (import \"c\" (component $c)) (instance (instantiate $c)))"),
            "instantiates a component that it imports",
        ),
        (
            "a huge function",
            functions(&body(0, NOP, 1 << 20), 1),
            "bytes in one function; 524288 are possible; split function 0, which has no name",
        ),
        (
            "a huge function with a name",
            text(&format!(
                "(component (core module) (core module (import \"\" \"\" (func)) (func) \
                 (func $_ZN5codec6decode17h0123456789abcdefE {})))",
                "nop ".repeat(1 << 20)
            )),
            "split the function `codec::decode` (number 2)",
        ),
        (
            "much code",
            functions(&body(0, NOP, 500_000), 26),
            "bytes of code; 12582912 are possible",
        ),
        ("many functions", functions(&body(0, NOP, 0), 50_001), "it has 50001 functions"),
        (
            "many variables",
            functions(&body(50_000, BLOCK, 3_000), 1),
            "bytes of one function times its 50000 variables",
        ),
        ("a wide signature", wide, "bytes of one function times its 900 variables"),
        ("many tables", component(&[section(4, &list(&[0x70, 0, 1], 65))]), "it has 65 tables"),
        (
            "many types",
            component(&[section(1, &list(&[0x60, 0, 0], 20_001))]),
            "it has 20001 types; 20000 are possible",
        ),
        (
            "many globals",
            component(&[section(6, &list(&[0x7f, 0, 0x41, 0, 0x0b], 900_000))]),
            "bytes of types, imports, exports and elements; 4194304 are possible",
        ),
        (
            "long names",
            component(&[section(0, &[b"\x04name", &*vec![0; 9 << 20]].concat())]),
            "bytes of names; 8388608 are possible",
        ),
    ]
}

#[test]
fn what_is_too_expensive_to_compile_is_refused() {
    let engine = Engine::new(&pipemill_builtin::BUILTINS).expect("an engine");
    for (what, wasm, says) in bombs() {
        let refused = Plugin::compile(&engine, "bomb", &wasm).err().expect(what).to_string();
        assert!(refused.contains(says), "{what}: {refused}");
    }
}

/// Compiles as the host does it, in a process of its own.
fn compile(place: &TestDir, wasm: &[u8]) -> Ended {
    let file = fs::File::open(place.write("plugin.wasm", wasm)).expect("it is there");
    let mut command = Command::new(pipemill!());
    Process::start(command.arg(COMPILE_STDIN).stdin(file)).wait()
}

#[test]
fn the_compiler_says_why_it_refuses() {
    let place = TestDir::new();
    let ended = compile(&place, b"no WebAssembly").with_code(65);
    ended.says(&["its file is not WebAssembly: expected it to begin with 00 61 73 6d"]);
    let code = compile(&place, &functions(&body(0, ADD, 0), 3)).with_code(0);
    assert!(code.stdout.starts_with(b"\x7fELF"), "{:?}", &code.stdout[..4]);
}

/// Processes that this one has started.
fn children(parent: Pid) -> Vec<Pid> {
    let all = fs::read_dir("/proc").expect("Linux has it").flatten();
    let pids = all.filter_map(|it| it.file_name().to_str()?.parse().ok()).map(Pid::from_raw);
    pids.filter(|pid| state(*pid).is_some_and(|(_, its_parent)| its_parent == parent)).collect()
}

/// A plugin that takes the compiler many seconds, and a host that has begun to compile it.
fn compiling(place: &TestDir) -> (Process, Pid) {
    let slow = place.write("slow.wasm", functions(&body(1, ADD, 500_000), 23));
    let input = place.write("input", "");
    let config = format!(
        "[[channel]]\nname = 'slow'\ndecoder = {slow:?}\nsource = {{ file = {input:?} }}\n"
    );
    let mut command = host::command(&pipemill!(), place, &config);
    let host = Process::start(command.env("PIPEMILL_CACHE", "off"));
    let mut child = None;
    until("the compiler runs", || {
        child = children(host.pid()).first().copied();
        child.is_some()
    });
    (host, child.expect("it runs"))
}

#[test]
fn a_signal_ends_a_run_that_compiles() {
    let place = TestDir::new();
    let (host, compiler) = compiling(&place);
    host.signal(Signal::SIGTERM);
    host.wait().with_code(143).says(&["stopping before anything was started: SIGTERM"]);
    until("the compiler has ended", || state(compiler).is_none_or(|(state, _)| state == 'Z'));
}

/// As when the kernel ends it because it takes too much memory.
#[test]
fn a_compiler_that_is_killed_ends_no_host() {
    let place = TestDir::new();
    let (host, compiler) = compiling(&place);
    kill(compiler, Signal::SIGKILL).expect("it runs");
    host.wait().with_code(64).says(&["slow.wasm", "the compiler failed on it (signal: 9"]);
}

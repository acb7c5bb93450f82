//! A decoder of a few hundred bytes, written by hand in WebAssembly's text form: to each chunk one
//! record. It can be told to do what no compiler would let it do, and it compiles in no time.

use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

/// The interface, and that of the window.
const WIT: [&str; 2] = [
    include_str!("../../../../wit/0.1/decoder.wit"),
    include_str!("../../../../wit/0.2/window.wit"),
];
/// The functions of a stream, in a module.
const DECODER: &str = "pipemill:decoder/decoder@0.1.0";

/// The tiny decoder as a component. `at_start` is done when it is instantiated, `at_decode` at the start
/// of each call of `decode` (its parameters: `$self`, `$chunk`, `$size`, `$end`); both are instructions in
/// the text form.
///
/// # Panics
/// If they are not.
pub fn tiny(at_start: &str, at_decode: &str) -> Vec<u8> {
    let module = wat::parse_str(text(at_start, at_decode)).expect("instructions");
    component(module).expect("it fits the world")
}

/// The tiny decoder with a window. `set_aside` gives the address of the window (its parameter: `$size`).
///
/// # Panics
/// As [`tiny`].
pub fn tiny_with_window(set_aside: &str, at_decode: &str) -> Vec<u8> {
    const WINDOW: &str = "pipemill:decoder/window@0.2.0";
    let decode = format!(r#"(export "{DECODER}#[method]stream.decode")"#);
    let functions = format!(
        r#"(func (export "{WINDOW}#set-aside") (param $size i32) (result i32) {set_aside})
        (func $start"#
    );
    let text = text("", at_decode)
        .replace(&decode, &format!(r#"{decode} (export "{WINDOW}#decode")"#))
        .replace("(func $start", &functions);
    let module = wat::parse_str(text).expect("instructions");
    component_of(WIT.len(), module).expect("it fits the world")
}

/// A core module with the interface's imports and exports as a component.
///
/// # Errors
/// It does not fit the interface.
pub fn component(module: Vec<u8>) -> Result<Vec<u8>, String> {
    component_of(1, module)
}

/// A core module as a component, for this many packages of the interface.
fn component_of(packages: usize, mut module: Vec<u8>) -> Result<Vec<u8>, String> {
    let mut resolve = Resolve::default();
    let parse = |wit: &&str| resolve.push_str("decoder.wit", wit).expect("the interface parses");
    let package = WIT[..packages].iter().map(parse).last().expect("one or two");
    let world = resolve.select_world(&[package], None).expect("its one world");
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .expect("the world can be embedded");
    let encoder = ComponentEncoder::default().validate(true).module(&module);
    encoder.and_then(|mut encoder| encoder.encode()).map_err(|why| format!("{why:#}"))
}

/// The tiny decoder's module in the text form.
pub fn text(at_start: &str, at_decode: &str) -> String {
    format!(
        r#"(module
            (import "pipemill:decoder/host@0.1.0" "log" (func $log (param i32 i32 i32)))
            (import "pipemill:decoder/host@0.1.0" "set-schema" (func $set_schema (param i32 i32)))
            (import "pipemill:decoder/host@0.1.0" "emit"
                (func $emit (param i32 i32 i32 i32 i32 i32 i32)))
            (import "[export]{DECODER}" "[resource-new]stream"
                (func $new (param i32) (result i32)))
            (memory (export "memory") 64)
            (table $table 1 funcref)
            (global $top (mut i32) (i32.const 4096))
            ;; One field of 52 bytes: its name is at 64, its type at 72; the rest is empty. Where the fields are, and
            ;; how many, is at 56. The answers of calls go to 128, a span to 256.
            (data (i32.const 0) "\40\00\00\00\05\00\00\00\48\00\00\00\05\00\00\00")
            (data (i32.const 56) "\00\00\00\00\01\00\00\00chunk\00\00\00bytes")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (global.get $top)
                (global.set $top (i32.and
                    (i32.add (i32.add (global.get $top) (local.get 3)) (i32.const 7))
                    (i32.const -8))))
            (func (export "{DECODER}#options") (result i32)
                (i64.store (i32.const 128) (i64.const 0))
                (i32.const 128))
            (func (export "{DECODER}#[static]stream.open")
                (param i32) (result i32)
                (call $set_schema (i32.load (i32.const 56)) (i32.load (i32.const 60)))
                (i32.store8 (i32.const 128) (i32.const 0))
                (i32.store (i32.const 132) (call $new (i32.const 1)))
                (i32.const 128))
            (func (export "{DECODER}#[method]stream.decode")
                (param $self i32) (param $chunk i32) (param $size i32) (param $end i32) (result i32)
                {at_decode}
                (i64.store (i32.const 256) (i64.extend_i32_u (local.get $size)))
                (if (local.get $size) (then (call $emit (i32.const 1)
                    (i32.const 256) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))))
                (global.set $top (i32.const 4096))
                (i32.store8 (i32.const 128) (i32.const 0))
                (i32.store (i32.const 136) (local.get $size))
                (i32.store (i32.const 140) (i32.const 1))
                (i32.const 128))
            (func (export "{DECODER}#[method]stream.resync")
                (param i32 i32 i32 i32) (result i32)
                (i32.store (i32.const 128) (local.get 2))
                (i32.store8 (i32.const 132) (i32.const 0))
                (i32.const 128))
            (func $start {at_start})
            (start $start))"#
    )
}

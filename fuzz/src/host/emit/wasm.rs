//! The decoders of the target, made of the tests' tiny one. They wait for the end of the input.
//! Then each block of the chunk causes a call of `emit`, see `calls`.

use pipemill_testing::tiny::tiny;

/// One field of bytes.
pub(super) fn single() -> Vec<u8> {
    tiny("", EMIT)
}

/// Bytes that may be absent, two numbers, a list of bytes.
pub(super) fn several() -> Vec<u8> {
    tiny(FIELDS, EMIT)
}

const EMIT: &str =
    "(local $at i32) (local $spans i32) (local $starts i32) (local $payload i32) (local $next i32)
    (global.set $top (i32.const 4096))
    (i64.store (i32.const 128) (i64.const 0))
    (i64.store (i32.const 136) (i64.const 0))
    (i64.store (i32.const 144) (i64.const 0))
    (if (i32.eqz (local.get $end)) (then (return (i32.const 128))))
    (local.set $at (local.get $chunk))
    (block $done (loop $again
        (br_if $done (i32.ge_u (local.get $at) (i32.add (local.get $chunk) (local.get $size))))
        (local.set $spans (i32.add (local.get $at) (i32.const 8)))
        (local.set $starts (i32.add (local.get $spans)
            (i32.mul (i32.const 8) (i32.load8_u offset=1 (local.get $at)))))
        (local.set $payload (i32.add (local.get $starts)
            (i32.mul (i32.const 4) (i32.load8_u offset=2 (local.get $at)))))
        (local.set $next (i32.add (local.get $payload) (i32.load8_u offset=3 (local.get $at))))
        (call $emit (i32.load8_u (local.get $at))
            (local.get $spans) (i32.load8_u offset=1 (local.get $at))
            (local.get $payload) (i32.load8_u offset=3 (local.get $at))
            (local.get $starts) (i32.load8_u offset=2 (local.get $at)))
        (local.set $at (i32.and (i32.add (local.get $next) (i32.const 7)) (i32.const -8)))
        (br $again)))
    (i32.store (i32.const 136) (local.get $size))
    (return (i32.const 128))";

/// Writes three fields at 1024, each of 52 bytes: name, type, shape, nullable. Names are parts of `chunk`
/// at 64, types are `bytes` at 72 and `uint16` at 2048; a 0 and a 2 for the shapes are at 2056.
const FIELDS: &str = "
    (i32.store (i32.const 56) (i32.const 1024))
    (i32.store (i32.const 60) (i32.const 3))
    (i64.store (i32.const 2048) (i64.const 0x3631746e6975))
    (i64.store (i32.const 2056) (i64.const 0x200000000))

    (i32.store (i32.const 1024) (i32.const 64)) (i32.store (i32.const 1028) (i32.const 1))
    (i32.store (i32.const 1032) (i32.const 72)) (i32.store (i32.const 1036) (i32.const 5))
    (i32.store8 (i32.const 1048) (i32.const 1))

    (i32.store (i32.const 1076) (i32.const 65)) (i32.store (i32.const 1080) (i32.const 1))
    (i32.store (i32.const 1084) (i32.const 2048)) (i32.store (i32.const 1088) (i32.const 6))
    (i32.store (i32.const 1092) (i32.const 2060)) (i32.store (i32.const 1096) (i32.const 1))

    (i32.store (i32.const 1128) (i32.const 66)) (i32.store (i32.const 1132) (i32.const 1))
    (i32.store (i32.const 1136) (i32.const 72)) (i32.store (i32.const 1140) (i32.const 5))
    (i32.store (i32.const 1144) (i32.const 2056)) (i32.store (i32.const 1148) (i32.const 1))";

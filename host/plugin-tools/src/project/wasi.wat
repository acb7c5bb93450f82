;; The functions of the system (WASI preview 1) for a decoder, which has none: no files, no clock,
;; no randomness, no environment. `plugin build` links it to modules whose language insists on them, so
;; that the component imports pipemill's interface alone. Each answer is the same on every machine
;; and in every call.
;;
;; What the module writes to its standard output and error goes line by line to the host's log.
(module
  (import "env" "memory" (memory 0))
  (import "pipemill:decoder/host@0.1.0" "log"
    (func $log (param $level i32) (param $at i32) (param $length i32)))

  ;; A page of memory with the line that is being written, once there is one.
  (global $line (mut i32) (i32.const 0))
  (global $length (mut i32) (i32.const 0))
  ;; 2 (info) for the standard output, 3 (warning) for the error.
  (global $level (mut i32) (i32.const 2))

  ;; --- The empty environment

  (func (export "args_sizes_get") (param $count i32) (param $bytes i32) (result i32)
    (call $no_strings (local.get $count) (local.get $bytes)))
  (func (export "environ_sizes_get") (param $count i32) (param $bytes i32) (result i32)
    (call $no_strings (local.get $count) (local.get $bytes)))
  (func $no_strings (param $count i32) (param $bytes i32) (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $bytes) (i32.const 0))
    (i32.const 0))
  (func (export "args_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "environ_get") (param i32 i32) (result i32) (i32.const 0))

  ;; --- The clock stands still but for waits, which take no time: it goes on to their end. Go does
  ;; not start if it is at 0.

  (global $now (mut i64) (i64.const 1))

  (func (export "clock_res_get") (param i32) (param $at i32) (result i32)
    (i64.store (local.get $at) (i64.const 1))
    (i32.const 0))
  (func (export "clock_time_get") (param i32 i64) (param $at i32) (result i32)
    (i64.store (local.get $at) (global.get $now))
    (i32.const 0))

  ;; --- Random bytes are zeros: languages start their hash tables with some, and the order in which
  ;; records come must not depend on them.

  (func (export "random_get") (param $at i32) (param $length i32) (result i32)
    (memory.fill (local.get $at) (i32.const 0) (local.get $length))
    (i32.const 0))

  ;; --- A wait ends at once. A subscription has 48 bytes: data of the caller (at 0), and its kind,
  ;; 0 for the clock (at 8); then the nanoseconds (at 24), which are a moment if the flag is 1 (at
  ;; 40).
  ;; An event has 32: the same data (at 0), an error (at 8), the kind (at 10).

  (func (export "poll_oneoff")
    (param $in i32) (param $out i32) (param $count i32) (param $events i32) (result i32)
    (i32.store (local.get $events) (local.get $count))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $count)))
        (memory.fill (local.get $out) (i32.const 0) (i32.const 32))
        (i64.store (local.get $out) (i64.load (local.get $in)))
        (i32.store8 offset=10 (local.get $out) (i32.load8_u offset=8 (local.get $in)))
        (if (i32.load8_u offset=8 (local.get $in))
          (then (i32.store16 offset=8 (local.get $out) (i32.const 52)))
          (else
            (call $wait
              (i64.load offset=24 (local.get $in)) (i32.load16_u offset=40 (local.get $in)))))
        (local.set $in (i32.add (local.get $in) (i32.const 48)))
        (local.set $out (i32.add (local.get $out) (i32.const 32)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (i32.const 0))
  (func $wait (param $nanoseconds i64) (param $is_moment i32)
    (if (i32.eqz (local.get $is_moment))
      (then (local.set $nanoseconds (i64.add (local.get $nanoseconds) (global.get $now)))))
    (if (i64.gt_u (local.get $nanoseconds) (global.get $now))
      (then (global.set $now (local.get $nanoseconds)))))
  (func (export "sched_yield") (result i32) (i32.const 0))

  ;; --- The end: a decoder that leaves has failed.

  (func (export "proc_exit") (param i32)
    (call $flush)
    unreachable)
  (func (export "proc_raise") (param i32) (result i32)
    (call $flush)
    unreachable)

  ;; --- What is written. An entry of the list has an address and a length.

  (func (export "fd_write")
    (param $fd i32) (param $list i32) (param $count i32) (param $written i32) (result i32)
    (local $sum i32)
    (if (i32.gt_u (i32.sub (local.get $fd) (i32.const 1)) (i32.const 1))
      (then (return (i32.const 8)))) ;; no such file
    ;; The standard error begins a line of its own, and so does the output.
    (if (i32.ne (global.get $level) (i32.add (local.get $fd) (i32.const 1)))
      (then (call $flush)))
    (global.set $level (i32.add (local.get $fd) (i32.const 1)))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $count)))
        (call $write (i32.load (local.get $list)) (i32.load offset=4 (local.get $list)))
        (local.set $sum (i32.add (local.get $sum) (i32.load offset=4 (local.get $list))))
        (local.set $list (i32.add (local.get $list) (i32.const 8)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $written) (local.get $sum))
    (i32.const 0))

  ;; Adds bytes to the line, and passes on each line that ends. Longer ones than 4,096 bytes are
  ;; divided. Without memory for it, the text is lost.
  (func $write (param $at i32) (param $bytes i32)
    (local $byte i32)
    (if (i32.eqz (global.get $line))
      (then
        (global.set $line (memory.grow (i32.const 1)))
        (if (i32.eq (global.get $line) (i32.const -1))
          (then (global.set $line (i32.const 0)) (return)))
        (global.set $line (i32.shl (global.get $line) (i32.const 16)))))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $bytes)))
        (local.set $byte (i32.load8_u (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $bytes (i32.sub (local.get $bytes) (i32.const 1)))
        (if (i32.or
              (i32.eq (local.get $byte) (i32.const 10))
              (i32.eq (global.get $length) (i32.const 4096)))
          (then (call $flush)))
        (br_if $next (i32.eq (local.get $byte) (i32.const 10)))
        (i32.store8 (i32.add (global.get $line) (global.get $length)) (local.get $byte))
        (global.set $length (i32.add (global.get $length) (i32.const 1)))
        (br $next))))

  ;; Passes the line on, unless it is empty. It must be UTF-8: other bytes become question marks.
  (func $flush
    (local $at i32) (local $end i32) (local $more i32)
    (if (i32.eqz (global.get $length)) (then (return)))
    (local.set $at (global.get $line))
    (local.set $end (i32.add (global.get $line) (global.get $length)))
    (loop $next
      (local.set $more (call $char (local.get $at) (local.get $end)))
      (if (i32.eqz (local.get $more))
        (then
          (i32.store8 (local.get $at) (i32.const 63))
          (local.set $more (i32.const 1))))
      (local.set $at (i32.add (local.get $at) (local.get $more)))
      (br_if $next (i32.lt_u (local.get $at) (local.get $end))))
    (call $log (call $level_of_line) (global.get $line) (global.get $length))
    (global.set $length (i32.const 0)))

  ;; The level of the line: 4 (error), so that the host has it as the reason of the failure, if it
  ;; begins as the last words of a program in Go do, `panic:` or `fatal error:`.
  (func $level_of_line (result i32)
    (if (i32.and
          (i32.eq (global.get $level) (i32.const 3))
          (i32.ge_u (global.get $length) (i32.const 6)))
      (then
        ;; The first four bytes, and the next two, as little-endian numbers.
        (if (i32.and
              (i32.eq (i32.load (global.get $line)) (i32.const 0x696e6170)) ;; "pani"
              (i32.eq (i32.load16_u offset=4 (global.get $line)) (i32.const 0x3a63))) ;; "c:"
          (then (return (i32.const 4))))
        (if (i32.and
              (i32.eq (i32.load (global.get $line)) (i32.const 0x61746166)) ;; "fata"
              (i32.eq (i32.load16_u offset=4 (global.get $line)) (i32.const 0x206c))) ;; "l "
          (then (return (i32.const 4))))))
    (global.get $level))

  ;; The number of bytes of the character at this place; 0 if it is none.
  (func $char (param $at i32) (param $end i32) (result i32)
    (local $first i32) (local $second i32)
    (local.set $first (i32.load8_u (local.get $at)))
    (if (i32.lt_u (local.get $first) (i32.const 0x80)) (then (return (i32.const 1))))
    (if (i32.eqz (call $follows (i32.add (local.get $at) (i32.const 1)) (local.get $end)))
      (then (return (i32.const 0))))
    (local.set $second (i32.load8_u offset=1 (local.get $at)))
    (if (call $within (local.get $first) (i32.const 0xc2) (i32.const 0xdf))
      (then (return (i32.const 2))))
    (if (i32.eqz (call $follows (i32.add (local.get $at) (i32.const 2)) (local.get $end)))
      (then (return (i32.const 0))))
    (if (call $within (local.get $first) (i32.const 0xe0) (i32.const 0xef))
      (then
        ;; Neither an overlong form nor a surrogate.
        (if (i32.and
              (i32.eq (local.get $first) (i32.const 0xe0))
              (i32.lt_u (local.get $second) (i32.const 0xa0)))
          (then (return (i32.const 0))))
        (if (i32.and
              (i32.eq (local.get $first) (i32.const 0xed))
              (i32.gt_u (local.get $second) (i32.const 0x9f)))
          (then (return (i32.const 0))))
        (return (i32.const 3))))
    (if (i32.eqz (call $follows (i32.add (local.get $at) (i32.const 3)) (local.get $end)))
      (then (return (i32.const 0))))
    (if (i32.eqz (call $within (local.get $first) (i32.const 0xf0) (i32.const 0xf4)))
      (then (return (i32.const 0))))
    (if (i32.and
          (i32.eq (local.get $first) (i32.const 0xf0))
          (i32.lt_u (local.get $second) (i32.const 0x90)))
      (then (return (i32.const 0))))
    (if (i32.and
          (i32.eq (local.get $first) (i32.const 0xf4))
          (i32.gt_u (local.get $second) (i32.const 0x8f)))
      (then (return (i32.const 0))))
    (i32.const 4))

  ;; Whether the byte at this place continues a character.
  (func $follows (param $at i32) (param $end i32) (result i32)
    (if (result i32) (i32.lt_u (local.get $at) (local.get $end))
      (then (i32.eq (i32.and (i32.load8_u (local.get $at)) (i32.const 0xc0)) (i32.const 0x80)))
      (else (i32.const 0))))

  (func $within (param $byte i32) (param $from i32) (param $to i32) (result i32)
    (i32.and
      (i32.ge_u (local.get $byte) (local.get $from))
      (i32.le_u (local.get $byte) (local.get $to))))

  ;; --- There are no files: 8 says that a descriptor is none, 52 that there is no such function.

  (func (export "fd_advise") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_allocate") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_close") (param i32) (result i32) (i32.const 8))
  (func (export "fd_datasync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_flags") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_rights") (param i32 i64 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_size") (param i32 i64) (result i32) (i32.const 8))
  (func (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_pread") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_dir_name") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_pwrite") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_read") (param i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_readdir") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "fd_renumber") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_sync") (param i32) (result i32) (i32.const 8))
  (func (export "fd_tell") (param i32 i32) (result i32) (i32.const 8))
  (func (export "path_create_directory") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_filestat_get") (param i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_filestat_set_times")
    (param i32 i32 i32 i32 i64 i64 i32) (result i32) (i32.const 52))
  (func (export "path_link") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_open")
    (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32) (i32.const 52))
  (func (export "path_readlink") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_remove_directory") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_rename") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_symlink") (param i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_unlink_file") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_accept") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_recv") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_send") (param i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_shutdown") (param i32 i32) (result i32) (i32.const 52))
)

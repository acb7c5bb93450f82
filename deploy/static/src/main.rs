//! The `pipemill` command for images: `make static` links it with libc in it, so that it runs on any Linux.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    look_names_up_without_plugins();
    pipemill_app::cli::main(&pipemill_builtin::BUILTINS)
}

/// A static binary has glibc in it, which, where an image's /etc/nsswitch.conf says so, would load that image's
/// plugins, of another glibc, into this one. What is in it needs none: files and DNS.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
fn look_names_up_without_plugins() {
    use std::ffi::{CStr, c_char, c_int};
    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }
    const WHERE: [(&CStr, &CStr); 3] =
        [(c"hosts", c"files dns"), (c"passwd", c"files"), (c"group", c"files")];
    for (database, services) in WHERE {
        // SAFETY: both are strings that end in NUL and are only read, and there is no other thread yet. It fails only
        // for a database that it does not know.
        unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    }
}

//! The `pipemill` command for images: `make static` links libc statically, so that it runs on any
//! Linux.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    look_names_up_without_plugins();
    pipemill_cli::main(&pipemill_builtin::BUILTINS)
}

/// Makes glibc look up names only in files and DNS. Otherwise glibc, which is part of a static
/// binary, would load the plugins that the image's /etc/nsswitch.conf names, and these belong to
/// another glibc. Files and DNS need no plugin.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
fn look_names_up_without_plugins() {
    use std::ffi::{CStr, c_char, c_int};
    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }
    const WHERE: [(&CStr, &CStr); 3] =
        [(c"hosts", c"files dns"), (c"passwd", c"files"), (c"group", c"files")];
    for (database, services) in WHERE {
        // SAFETY: both strings end in NUL and are only read, and there is no other thread yet. The
        // call fails only for an unknown database.
        unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    }
}

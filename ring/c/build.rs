//! The name under which programs look for the shared library: a minor version may break them.

fn main() {
    let version = |part| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap_or_default();
    let name = format!("libpipemill.so.{}.{}", version("MAJOR"), version("MINOR"));
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{name}");
    println!("cargo::rerun-if-changed=build.rs");
}

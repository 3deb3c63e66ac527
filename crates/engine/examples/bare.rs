//! Runs a program translated, for trying the engine alone.
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
fn main() {
    let arguments: Vec<_> = std::env::args_os().collect();
    let (plan, program) = unspool_engine::continuation(&arguments).unwrap_or_else(|| {
        let path =
            unspool_engine::loader::resolve(&arguments[1], std::env::var_os("PATH").as_deref())
                .unwrap_or_else(|e| {
                    eprintln!("{e}");
                    std::process::exit(127)
                });
        let program = unspool_engine::Program {
            path,
            arguments: arguments[1..]
                .iter()
                .map(|a| CString::new(a.as_bytes()).unwrap())
                .collect(),
            environment: unspool_engine::environment(),
        };
        (unspool_engine::Plan::default(), program)
    });
    let Err(error) = unspool_engine::run(plan, &program);
    eprintln!("error: {error}");
    std::process::exit(126);
}

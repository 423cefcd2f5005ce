//! The `pronghorn` server.
#![forbid(unsafe_code)]

mod apply;
mod args;
mod compat;
mod host;
mod housekeeping;
mod launch;
mod logging;
mod process;
mod registry;
mod running;
mod signals;
mod surroundings;
mod usage;
mod wiring;

use args::Request;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let args: Vec<Vec<u8>> = std::env::args_os()
        .skip(1)
        .map(OsStringExt::into_vec)
        .collect();
    let text = match args::parse(&args) {
        Request::Serve(sources) => return ExitCode::from(launch::serve(&sources)),
        Request::Refused(reason) => {
            eprintln!("{reason}");
            return ExitCode::FAILURE;
        }
        Request::Version => usage::version(),
        Request::Help => usage::help(),
        Request::PrintConf => engine::config::example_file(),
        Request::PrintConfigDocs => engine::config::reference(),
        Request::PrintCompat => compat::document(),
    };
    print!("{text}");
    ExitCode::SUCCESS
}

//! Every transcript, against redis-server and against this server.

use conformance::process::Program;
use conformance::run;

fn check(program: Program) {
    match run::check(program) {
        Ok(blocks) => println!("{blocks} blocks agree with {}", program.name()),
        Err(failures) => panic!("{failures}"),
    }
}

/// The expectations themselves are right. With TRANSCRIPT_BLESS=1, missing ones are filled in
/// first.
#[test]
fn oracle_agrees() {
    if std::env::var_os("TRANSCRIPT_BLESS").is_some() {
        let filled = run::bless().unwrap_or_else(|error| panic!("{error}"));
        println!("{filled} expectations filled in");
    }
    check(Program::Oracle);
}

#[test]
fn pronghorn_agrees() {
    check(Program::Pronghorn);
}

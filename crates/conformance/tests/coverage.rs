//! Every command of this server occurs in some transcript.

use conformance::coverage;
use conformance::process::Program;

/// Commands without a transcript, each with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[];

#[test]
fn every_command_has_a_transcript() {
    let unused = match coverage::unused_commands(Program::Pronghorn) {
        Ok(unused) => unused,
        Err(error) => panic!("{error}"),
    };
    let excused = |name: &str| EXCEPTIONS.iter().any(|(exception, _)| *exception == name);
    let missing: Vec<&String> = unused.iter().filter(|name| !excused(name)).collect();
    assert!(missing.is_empty(), "no transcript uses: {missing:?}");
    for (exception, _) in EXCEPTIONS {
        assert!(
            unused.iter().any(|name| name == exception),
            "{exception} needs no exception any more"
        );
    }
}

//! Requests parsed in pieces are the requests parsed whole, whatever the bytes.

use resp::{Limits, Parsed, Progress, ProtocolError, inline, parse_command};

type Words = Vec<Vec<u8>>;

/// The first byte chooses the size of the pieces and whether the client is known; the rest is input.
pub fn run(data: &[u8]) {
    let Some((choice, input)) = data.split_first() else {
        return;
    };
    let limits = Limits {
        bulk_bytes_max: 1 << 20,
        authenticated: choice & 1 == 1,
    };
    let (whole, whole_end) = parse(input, input.len().max(1), limits);
    let (pieces, pieces_end) = parse(input, usize::from(choice >> 1) % 19 + 1, limits);
    assert_eq!(whole, pieces);
    assert_eq!(whole_end, pieces_end);
    let bytes: usize = whole.iter().flatten().map(Vec::len).sum();
    assert!(bytes <= input.len(), "arguments are parts of the input");
}

/// Commands up to the first error, and that error.
fn parse(input: &[u8], piece: usize, limits: Limits) -> (Vec<Words>, Option<ProtocolError>) {
    let mut commands = Vec::new();
    let mut have = Vec::new();
    let mut progress = Progress::default();
    for part in input.chunks(piece) {
        have.extend_from_slice(part);
        let mut at = 0;
        loop {
            let mut args = Vec::new();
            match parse_command(&have, at, &limits, &mut progress, &mut args) {
                Ok(Parsed::Complete { end }) => {
                    commands.push(args.iter().map(|arg| have[arg.range()].to_vec()).collect());
                    at = end;
                }
                Ok(Parsed::Quoted { end }) => {
                    // Unbalanced quotes end the connection, as an error would.
                    let Some(words) = inline::split(&have[at..end]) else {
                        return (commands, None);
                    };
                    commands.push(words);
                    at = end;
                }
                Ok(Parsed::Empty { end }) => {
                    assert!(end > at && args.is_empty());
                    at = end;
                }
                Ok(Parsed::Incomplete { needed }) => {
                    assert!(needed > 0 && args.is_empty());
                    break;
                }
                Err(error) => return (commands, Some(error)),
            }
        }
        have.drain(..at);
    }
    (commands, None)
}

//! What OBJECT tells of a value.

use structures::keymap::{ValueEncoding, View};

/// Longest string that clients expect to be called `embstr`, bytes.
const EMBEDDED_MAX: usize = 44;

/// Encodings by the names clients know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `int`
    Int,
    /// `embstr`
    Embedded,
    /// `raw`
    Raw,
}

impl Encoding {
    /// The encoding of a record as OBJECT ENCODING answers it.
    pub fn of(view: &View<'_>) -> Encoding {
        match view.encoding() {
            ValueEncoding::Int => Encoding::Int,
            ValueEncoding::Slack | ValueEncoding::Blob => Encoding::Raw,
            ValueEncoding::Raw | ValueEncoding::Packed if view.len() > EMBEDDED_MAX => {
                Encoding::Raw
            }
            ValueEncoding::Raw | ValueEncoding::Packed => Encoding::Embedded,
        }
    }

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Int => "int",
            Encoding::Embedded => "embstr",
            Encoding::Raw => "raw",
        }
    }
}

//! Packing is undone by unpacking, for any text, seam and range, and writes nothing beside.

use base::simd::pack7::{pack, pack_two, packed_len, unpack_range};

/// Three bytes choose the seam and the range; the others are the text.
pub fn run(data: &[u8]) {
    let Some(([seam, first, count], bytes)) = data.split_first_chunk::<3>() else {
        return;
    };
    let text: Vec<u8> = bytes.iter().map(|byte| byte & 0x7f).collect();
    let within = |choice: u8, size: usize| usize::from(choice) % (size + 1);
    let size = packed_len(text.len());

    let mut whole = vec![0xa5; size + 8];
    pack(&text, &mut whole);
    assert!(whole[size..].iter().all(|byte| *byte == 0xa5));
    let (left, right) = text.split_at(within(*seam, text.len()));
    let mut joined = vec![0x5a; size];
    pack_two(left, right, &mut joined);
    assert_eq!(joined, whole[..size]);

    let first = within(*first, text.len());
    let count = within(*count, text.len() - first);
    let mut range = vec![0xa5; count + 8];
    unpack_range(&joined, first, count, &mut range);
    assert_eq!(range[..count], text[first..first + count]);
    assert!(range[count..].iter().all(|byte| *byte == 0xa5));
}

//! The text of an answer with tool calls, whole and in parts of the length that its first byte says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenfare_dsv41::chat::CallStream;
use tokenfare_lanes::Piece;

fn read<'a>(parts: impl Iterator<Item = &'a [char]>) -> String {
    let (mut stream, mut pieces) = (CallStream::default(), Vec::new());
    for part in parts {
        stream.push(&part.iter().collect::<String>(), &mut pieces);
    }
    stream.finish(&mut pieces);
    let shown = pieces.iter().map(|piece| match piece {
        Piece::Text { text, .. } => format!("\u{1}{text}"),
        Piece::Call(name) => format!("\u{2}{name}\u{3}"),
        Piece::Arguments(json) => format!("\u{4}{json}"),
        Piece::CallEnd => "\u{5}".to_owned(),
    });
    shown.collect::<String>().replace(['\u{1}', '\u{4}'], "")
}

fuzz_target!(|bytes: &[u8]| {
    let Some((size, text)) = bytes.split_first() else { return };
    let text: Vec<char> = String::from_utf8_lossy(text).chars().collect();
    let whole = read(std::iter::once(&text[..]));
    assert_eq!(read(text.chunks(usize::from(*size).max(1))), whole);
});

//! Server-sent events, as far as the OpenAI API uses them: the data of each event, comments left out.

use std::io::{self, BufRead};

/// The data of the events that a reader brings, one item an event, as soon as the event is complete.
pub struct Events<R> {
    reader: R,
}

impl<R: BufRead> Events<R> {
    /// Events of `reader`.
    pub fn new(reader: R) -> Self {
        Self { reader }
    }

    /// The next event's data; several data lines are joined by line breaks. A part at the end of the stream is no event.
    fn event(&mut self) -> io::Result<Option<String>> {
        let mut data: Option<String> = None;
        let mut line = String::new();
        loop {
            line.clear();
            if self.reader.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let text = line.trim_end_matches(['\n', '\r']);
            if let Some(value) = text.strip_prefix("data:") {
                let value = value.strip_prefix(' ').unwrap_or(value);
                match &mut data {
                    Some(data) => *data = format!("{data}\n{value}"),
                    None => data = Some(value.to_owned()),
                }
            } else if text.is_empty() && data.is_some() {
                return Ok(data);
            }
        }
    }
}

impl<R: BufRead> Iterator for Events<R> {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        self.event().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("", &[])]
    #[case("data: a\n\ndata: [DONE]\n\n", &["a", "[DONE]"])]
    #[case("data:a\r\n\r\n", &["a"])]
    #[case(": comment\n\nevent: x\nid: 7\ndata: a\n\n\n", &["a"])]
    #[case("data: a\ndata: b\n\n", &["a\nb"])]
    #[case("data:\n\n", &[""])]
    #[case("data: cut", &[])]
    fn data_of_events(#[case] stream: &str, #[case] expected: &[&str]) {
        let found: Vec<String> = Events::new(stream.as_bytes()).map(Result::unwrap).collect();
        assert_eq!(found, expected);
    }
}

//! The control tokens of the family, by role.

/// A token that steers the model rather than being text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Control {
    /// Begin of sequence.
    Bos,
    /// End of a turn.
    Eos,
    /// Padding.
    Pad,
    /// Opens a system message.
    System,
    /// Opens a user turn.
    User,
    /// Opens an assistant turn.
    Assistant,
    /// Opens a reminder beside the conversation.
    LatestReminder,
    /// `<think>`.
    ThinkOpen,
    /// `</think>`.
    ThinkClose,
    /// The mark inside every tag of a tool call.
    Dsml,
    /// One position of an image.
    Image,
    /// Task: decide what to do next.
    Action,
    /// Task: write a search query.
    Query,
    /// Task: judge the authority of a source.
    Authority,
    /// Task: name the domain.
    Domain,
    /// Task: write a title.
    Title,
    /// Task: decide which address to read.
    ReadUrl,
}

impl Control {
    /// Every control token.
    pub const ALL: [Control; 17] = [
        Control::Bos,
        Control::Eos,
        Control::Pad,
        Control::System,
        Control::User,
        Control::Assistant,
        Control::LatestReminder,
        Control::ThinkOpen,
        Control::ThinkClose,
        Control::Dsml,
        Control::Image,
        Control::Action,
        Control::Query,
        Control::Authority,
        Control::Domain,
        Control::Title,
        Control::ReadUrl,
    ];

    /// The text that stands for the token in a prompt.
    pub const fn text(self) -> &'static str {
        match self {
            Control::Bos => "<｜begin▁of▁sentence｜>",
            Control::Eos => "<｜end▁of▁sentence｜>",
            Control::Pad => "<｜▁pad▁｜>",
            Control::System => "<｜System｜>",
            Control::User => "<｜User｜>",
            Control::Assistant => "<｜Assistant｜>",
            Control::LatestReminder => "<｜latest_reminder｜>",
            Control::ThinkOpen => "<think>",
            Control::ThinkClose => "</think>",
            Control::Dsml => "｜DSML｜",
            Control::Image => "<｜deepseek_image｜>",
            Control::Action => "<｜action｜>",
            Control::Query => "<｜query｜>",
            Control::Authority => "<｜authority｜>",
            Control::Domain => "<｜domain｜>",
            Control::Title => "<｜title｜>",
            Control::ReadUrl => "<｜read_url｜>",
        }
    }
}

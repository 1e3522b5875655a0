//! Watching a forward pass from inside the process: discrete choices and intermediate values.

/// Receives what a model computes, launch by launch. Every method does nothing unless implemented.
///
/// Rows are those of the launch, in order: a prompt piece, or the windows of a round one after another. With an
/// observer attached the operations run one by one and their buffers are read back, to the same bits.
pub trait Observer: Send {
    /// Table rows that an Engram layer reads: `[n, columns]`.
    fn engram(&mut self, layer: usize, columns: usize, rows: &[u64]) {
        let _ = (layer, columns, rows);
    }

    /// Compressed rows that an index source selected: `[n, top_k]`, ascending, ended by [`tokenfare_device::NONE`].
    fn selection(&mut self, layer: usize, top_k: usize, list: &[u32]) {
        let _ = (layer, top_k, list);
    }

    /// Candidate blocks that the candidate source kept: `[n, words]`, bit `b % 32` of word `b / 32` for block `b`.
    fn candidates(&mut self, layer: usize, words: usize, mask: &[u32]) {
        let _ = (layer, words, mask);
    }

    /// Routed experts: `[n, top_k]`, ascending.
    fn experts(&mut self, layer: usize, top_k: usize, experts: &[u32]) {
        let _ = (layer, top_k, experts);
    }

    /// The streams after a layer, `[n, streams * hidden]`, and the collapse weights it leaves, `[n, streams]`.
    fn layer(&mut self, layer: usize, h: &[f32], pre: &[f32]) {
        let _ = (layer, h, pre);
    }

    /// Inputs of the tapped layers, averaged over streams: `[n, width]`.
    fn taps(&mut self, width: usize, taps: &[f32]) {
        let _ = (width, taps);
    }

    /// One drafter pass.
    fn draft(&mut self, pass: &DraftPass) {
        let _ = pass;
    }
}

/// What a drafter pass computed: `rows` = asks * block, ask by ask.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DraftPass {
    /// `[rows, hidden]`, before the last norm.
    pub hidden: Vec<f32>,
    /// `[rows, vocab]`, without the Markov bias.
    pub base_logits: Vec<f32>,
    /// `[rows, vocab]`, that drafts are drawn from.
    pub logits: Vec<f32>,
    /// `[rows]` confidence logits.
    pub confidence: Vec<f32>,
    /// `[rows]` drafts.
    pub drafts: Vec<u32>,
}

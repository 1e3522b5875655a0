//! Tensor names: as the release stores them, and the spellings of other converters.

use std::borrow::Cow;

/// Parts that other converters spell differently, with the release's spelling.
const SPELLINGS: [(&str, &str); 4] = [
    (".self_attn.", ".attn."),
    (".mlp.", ".ffn."),
    (".weight_scale_inv", ".scale"),
    (".e_score_correction_bias", ".bias"),
];

/// The release's name of a stored tensor: `model.` dropped, `self_attn`, `mlp`, `weight_scale_inv` and
/// `e_score_correction_bias` respelled. Names of the vision tower stay as they are.
pub(super) fn canonical(stored: &str) -> Cow<'_, str> {
    let name = stored.strip_prefix("model.").unwrap_or(stored);
    if name.starts_with("vision.") {
        return Cow::Borrowed(name);
    }
    SPELLINGS.iter().fold(Cow::Borrowed(name), |name, (other, own)| {
        if name.contains(other) { Cow::Owned(name.replace(other, own)) } else { name }
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::canonical;

    #[rstest]
    #[case("layers.0.attn.wq_a.scale", "layers.0.attn.wq_a.scale")]
    #[case("model.layers.0.self_attn.wq_a.weight_scale_inv", "layers.0.attn.wq_a.scale")]
    #[case("model.layers.3.mlp.gate.e_score_correction_bias", "layers.3.ffn.gate.bias")]
    #[case("model.embed.weight", "embed.weight")]
    #[case("vision.blocks.0.mlp.w1.weight", "vision.blocks.0.mlp.w1.weight")]
    fn spellings_of_other_converters_are_known(#[case] stored: &str, #[case] name: &str) {
        assert_eq!(canonical(stored), name);
    }
}

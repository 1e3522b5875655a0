//! Every check on the reference device.

use tokenfare_device::Reference;

use crate::{bits, mini, tiny};

macro_rules! checks {
    ($($module:ident::$check:ident;)*) => {
        $(#[test]
        fn $check() {
            $module::$check(Reference::new);
        })*
    };
}

checks! {
    bits::exact_chunked_is_whole;
    bits::exact_observed_is_unobserved;
    bits::exact_rejected_drafts_leave_nothing;
    bits::exact_release_leaves_nothing;
    bits::exact_restored_elsewhere;
    bits::exact_restored_is_saved;
    bits::exact_shared_is_alone;
    bits::exact_windows_are_prompt_rows;
    mini::completions;
    mini::drafter;
    tiny::logits;
    tiny::logits_with_trained_caches;
    tiny::choices;
    tiny::intermediates;
    tiny::decode;
    tiny::drafts;
    tiny::rounds;
}

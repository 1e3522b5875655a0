//! The misreadings by name, and those that are made in the configuration.

use tokenfare_dsv41::config::Config;

macro_rules! misreadings {
    ($($name:literal => $variant:ident,)*) => {
        /// One way to misread the model.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Misreading {
            $(#[doc = $name] $variant,)*
        }

        impl Misreading {
            /// By its name in the list.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

misreadings! {
    "none" => None,
    "pre-mix not delayed" => PreMixNotDelayed,
    "comb transposed" => CombTransposed,
    "window one short" => WindowOneShort,
    "no inverse rope" => NoInverseRope,
    "half-split rope" => HalfSplitRope,
    "no yarn" => NoYarn,
    "compressed rope at last token of group" => CompressedRopeAtLast,
    "index key rope at last token" => IndexKeyRopeAtLast,
    "no relu in index" => NoReluInIndex,
    "candidates ignored" => CandidatesIgnored,
    "newest block not pinned" => NewestNotPinned,
    "sink ignored" => SinkIgnored,
    "up clamp upper only" => UpClampUpperOnly,
    "route scale missing" => RouteScaleMissing,
    "biased routing weights" => BiasedRoutingWeights,
    "engram gate without sqrt" => EngramWithoutSqrt,
    "engram after attention norm stats jointly" => EngramJointNorm,
    "pad id raw" => PadIdRaw,
    "taps after the layer" => TapsAfterLayer,
    "draft window slides" => DraftWindowSlides,
    "draft block causal" => DraftBlockCausal,
    "draft confidence after norm" => ConfidenceAfterNorm,
}

impl Misreading {
    /// Whether golden values can tell it from the model.
    pub fn is_visible(self) -> bool {
        !matches!(self, Self::None | Self::EngramJointNorm | Self::PadIdRaw)
    }

    /// Makes the misreadings that are a matter of configuration.
    pub fn edit(self, config: &mut Config) {
        match self {
            Self::NoYarn => config.yarn.factor = 1.0,
            Self::TapsAfterLayer => {
                // What leaves a layer enters the next; nothing follows the last, whose place repeats the first.
                let taps = &mut config.drafter.as_mut().unwrap().taps;
                assert_eq!(*taps, [7, 8, 9]);
                *taps = vec![8, 9, 8];
            }
            _ => (),
        }
    }
}

//! Settings that are one of a few words.

macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $($word:literal)|+,)+ } in $order:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$item_doc])* $item,)+
        }

        impl $name {
            /// Accepted words, in the order in which a refusal lists them.
            pub const WORDS: &'static [&'static str] = &$order;

            /// The meaning of a word, in lower case.
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($($word)|+ => Some(Self::$item),)+
                    _ => None,
                }
            }
        }
    };
}

choices! {
    /// Where the table of draft costs comes from.
    CalibSource {
        /// The best matching stored table of any engine.
        Cached = "cached",
        /// The built-in table.
        Default = "default",
        /// The newest usable stored table.
        Real = "real",
        /// Timed at every start.
        Measure = "measure",
        /// This engine's stored table, timed once when there is none.
        Stored = "stored" | "zig",
    } in ["cached", "default", "real", "measure", "stored", "zig"]
}

choices! {
    /// How timed rows are smoothed.
    TableShape {
        /// As timed, made non-decreasing.
        Raw = "raw",
        /// On lines through many rows.
        Fit = "fit",
    } in ["raw", "fit"]
}

choices! {
    /// How runs of one window are combined.
    TimingStat {
        /// Their median.
        Median = "median",
        /// The fastest.
        Min = "min",
    } in ["median", "min"]
}

choices! {
    /// How draft depth is chosen.
    DepthRule {
        /// By price.
        Cost = "cost",
        /// Always the same.
        Static = "static",
    } in ["cost", "static"]
}

choices! {
    /// How windows of one launch are priced.
    JointDepth {
        /// Each as if it were alone.
        Separate = "0",
        /// All together.
        Together = "1",
    } in ["0", "1"]
}

choices! {
    /// Which kernels the CPU device runs.
    CpuPath {
        /// The fastest the processor has.
        Auto = "auto",
        /// AMX tiles.
        Amx = "amx",
        /// AVX-512.
        Avx512 = "avx512",
        /// AVX2.
        Avx2 = "avx2",
        /// NEON.
        Neon = "neon",
        /// Plain Rust.
        Scalar = "scalar",
    } in ["auto", "amx", "avx512", "avx2", "neon", "scalar"]
}

choices! {
    /// What an owner of a device opts in to.
    Experiment {
        /// Serving DeepSeek on a device kind that no owner has qualified yet.
        Deepseek = "deepseek",
    } in ["deepseek"]
}

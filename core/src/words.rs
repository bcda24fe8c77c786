//! Enums whose values have a word each, in rows, traces and messages.

/// Makes an enum, and from its list of words all that goes between values and words: `ALL`, the word of a value, the
/// value of a word, and `Display`.
///
/// ```
/// fulgurite_core::words! {
///     /// The side of a door.
///     #[derive(Clone, Copy, PartialEq, Debug)]
///     pub enum Side: word, from_word {
///         /// Inside.
///         In = "in",
///         /// Outside.
///         Out = "out",
///     }
/// }
/// assert_eq!(Side::from_word(Side::Out.word()), Some(Side::Out));
/// ```
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident: $word:ident, $from:ident { $($(#[$doc:meta])* $value:ident = $text:literal),* $(,)? }
    ) => {
        $(#[$meta])*
        $vis enum $name { $($(#[$doc])* $value),* }

        impl $name {
            /// Every value, in the order of declaration.
            $vis const ALL: [$name; [$($text),*].len()] = [$($name::$value),*];

            /// The word of each value.
            $vis const WORDS: [&'static str; $name::ALL.len()] = [$($text),*];

            /// The word of this variant.
            $vis const fn $word(self) -> &'static str {
                match self { $($name::$value => $text),* }
            }

            /// The value with this word.
            $vis fn $from(word: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|value| value.$word() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.$word())
            }
        }
    };
}

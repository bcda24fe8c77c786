//! Linearise and transpose.

//! Tags: facts about proxies, bound symbols and regions that neither a row nor a type states.
//!
//! A kind of tag is declared once, with the one carrier that it applies to and a policy for each structural event, so
//! the table of policies is total. A fact that can be derived is not a tag: detachment follows from rows and regions,
//! randomness from keys and sites.

use crate::error::{Error, ErrorKind};
use std::fmt;
use std::sync::Mutex;

/// A kind of tag.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(u8);

/// The kind of object that a tag applies to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Carrier {
    /// A proxy.
    Value,
    /// A bound symbol.
    Line,
    /// A region.
    Region,
}

impl Carrier {
    /// The carrier in the plural, for messages.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Carrier::Value => "values",
            Carrier::Line => "lines",
            Carrier::Region => "regions",
        }
    }
}

/// Structural events: changes that transforms make to lines and values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// Another line makes the value.
    Replace,
    /// A line becomes its body.
    Decompose,
    /// Backward lines are made for a line.
    Vjp,
    /// A line is cloned to run again.
    Recompute,
    /// Lines become one kernel.
    Fuse,
    /// Equal lines become one.
    Merge,
    /// A subclass's line becomes lines on its fields.
    Unroll,
    /// A write becomes a new version.
    Functionalise,
}

const EVENTS: usize = 8;

/// The effect of an event on a tag.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// The tag stays on the object that keeps its identity.
    Keep,
    /// The tag is dropped.
    Drop,
    /// Every new object gets the tag.
    All,
    /// Only the new objects that correspond to the old ones get the tag.
    Outputs,
    /// A merged object gets the tags of all partners.
    Union,
    /// The event is refused if the partners differ.
    MustAgree,
    /// The event is refused.
    Forbid,
}

/// The side of `split` on which an event happens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum SplitSide {
    Before,
    After,
}

/// A policy for each event, before and after `split`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policies([[Policy; EVENTS]; 2]);

impl Policies {
    /// Equal policies before and after `split`, in the order of [`Event`].
    pub const fn both(policies: [Policy; EVENTS]) -> Policies {
        Policies([policies, policies])
    }

    /// Replaces the policy for one event after `split`.
    pub const fn after_split(mut self, event: Event, policy: Policy) -> Policies {
        self.0[1][event as usize] = policy;
        self
    }

    /// The policy for an event.
    pub const fn at(&self, event: Event, side: SplitSide) -> Policy {
        self.0[side as usize][event as usize]
    }
}

/// The declaration of a kind of tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagDecl {
    /// The name, printed as `#name`.
    pub name: &'static str,
    /// The carrier.
    pub carrier: Carrier,
    /// Whether lines recorded next to a kept line get the tag too.
    pub inherit: bool,
    /// Whether losing the tag is an error ([`ErrorKind::TagLost`]).
    pub must_survive: bool,
    /// The policies.
    pub policies: Policies,
}

use Policy::{All, Drop, Keep, MustAgree, Outputs, Union};

const SAVE: Policies = Policies::both([Keep, Outputs, Drop, Drop, Keep, Union, All, Drop]);
const RECOMPUTE: Policies = Policies::both([Keep, All, Drop, Drop, MustAgree, MustAgree, All, Keep])
    .after_split(Event::Fuse, Drop)
    .after_split(Event::Merge, Drop);
const GRAD_MODE: Policies =
    Policies::both([Keep, All, Drop, All, Keep, MustAgree, All, Keep]).after_split(Event::Merge, Keep);

/// A line that replaces a seen line, or runs it again, counts as seen; its gradient is new.
const SEEN: Policies = Policies::both([Keep, All, Drop, All, Union, Union, All, Keep]);

const fn decl(name: &'static str, carrier: Carrier, inherit: bool, must_survive: bool, policies: Policies) -> TagDecl {
    TagDecl { name, carrier, inherit, must_survive, policies }
}

/// The built-in kinds. The columns are replace, decompose, vjp, recompute, fuse, merge, unroll, functionalise.
const BUILT_IN: [TagDecl; 12] = [
    decl(
        "static_memory",
        Carrier::Value,
        false,
        true,
        Policies::both([Keep, Outputs, Drop, Drop, Keep, MustAgree, All, Keep]),
    ),
    decl("must_save", Carrier::Value, false, false, SAVE),
    decl("no_save", Carrier::Value, false, false, SAVE),
    decl("recompute", Carrier::Line, true, false, RECOMPUTE),
    decl("no_auto_recompute", Carrier::Line, true, false, RECOMPUTE),
    decl(
        "backward",
        Carrier::Line,
        true,
        false,
        Policies::both([Keep, All, All, All, MustAgree, MustAgree, All, Keep]),
    ),
    decl(
        "checkpoint",
        Carrier::Region,
        false,
        false,
        Policies::both([Keep, All, Drop, Drop, Keep, MustAgree, All, Keep]).after_split(Event::Fuse, Drop),
    ),
    decl("autocast", Carrier::Region, false, false, Policies::both([Keep, All, Drop, All, Keep, Keep, All, Keep])),
    decl("no_grad", Carrier::Region, false, false, GRAD_MODE),
    decl("enable_grad", Carrier::Region, false, false, GRAD_MODE),
    decl("seen_acquired", Carrier::Line, true, false, SEEN),
    decl("seen_joint", Carrier::Line, true, false, SEEN),
];

impl Tag {
    /// The value is in one place of memory for the whole run.
    pub const STATIC_MEMORY: Tag = Tag(0);
    /// The value is saved for the backward, never recomputed.
    pub const MUST_SAVE: Tag = Tag(1);
    /// The value is never saved for the backward.
    pub const NO_SAVE: Tag = Tag(2);
    /// The line runs again in the backward instead of its results being saved.
    pub const RECOMPUTE: Tag = Tag(3);
    /// No heuristic may recompute the line.
    pub const NO_AUTO_RECOMPUTE: Tag = Tag(4);
    /// The line belongs to a gradient.
    pub const BACKWARD: Tag = Tag(5);
    /// The tag of checkpoint regions.
    pub const CHECKPOINT: Tag = Tag(6);
    /// The tag of autocast regions.
    pub const AUTOCAST: Tag = Tag(7);
    /// The tag of regions with gradients off.
    pub const NO_GRAD: Tag = Tag(8);
    /// The tag of regions with gradients on again.
    pub const ENABLE_GRAD: Tag = Tag(9);
    /// The user's transforms at [`At::Acquired`](crate::transforms::At::Acquired) have seen the line.
    pub const SEEN_ACQUIRED: Tag = Tag(10);
    /// The user's transforms at [`At::Joint`](crate::transforms::At::Joint) have seen the line.
    pub const SEEN_JOINT: Tag = Tag(11);

    /// Declares a kind, or finds an equal declaration.
    ///
    /// # Errors
    /// E724 if the name has another declaration or is not an identifier, or if there are 64 kinds already.
    pub fn declare(decl: TagDecl) -> Result<Tag, Error> {
        let mut kinds = declared();
        let all = BUILT_IN.iter().chain(kinds.iter());
        if let Some((i, old)) = all.enumerate().find(|(_, d)| d.name == decl.name) {
            if *old == decl {
                return Ok(Tag(i as u8));
            }
            return Err(Error::new("E724", format!("the tag `{}` is declared already, otherwise", decl.name)));
        }
        if decl.name.is_empty() || !decl.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(Error::new("E724", format!("`{}` can't name a tag: letters, digits and `_` can", decl.name)));
        }
        let at = BUILT_IN.len() + kinds.len();
        if at >= 64 {
            return Err(Error::new(
                "E724",
                format!("the tag `{}` is one too many: 64 kinds can be declared", decl.name),
            ));
        }
        kinds.push(decl);
        Ok(Tag(at as u8))
    }

    /// The kind with this name.
    pub fn find(name: &str) -> Option<Tag> {
        BUILT_IN.iter().chain(declared().iter()).position(|d| d.name == name).map(|i| Tag(i as u8))
    }

    /// The declaration of the kind.
    pub fn decl(self) -> TagDecl {
        match BUILT_IN.get(self.0 as usize) {
            Some(decl) => *decl,
            // a `Tag` beyond the built-in ones was made by `declare`, which only appends
            None => declared()[self.0 as usize - BUILT_IN.len()],
        }
    }

    /// Whether the kind is built in.
    pub fn is_built_in(self) -> bool {
        (self.0 as usize) < BUILT_IN.len()
    }

    /// The name of the kind.
    pub fn name(self) -> &'static str {
        self.decl().name
    }
}

/// Refuses tags of one value that exclude each other.
///
/// # Errors
/// E722 for such tags.
pub(crate) fn save_at_all(tags: TagSet, of: &str, transform: &'static str) -> Result<(), Error> {
    if !(tags.contains(Tag::MUST_SAVE) && tags.contains(Tag::NO_SAVE)) {
        return Ok(());
    }
    let names = vec![Tag::MUST_SAVE.name(), Tag::NO_SAVE.name()];
    let claim = format!("`{of}` is tagged `must_save` and `no_save`");
    Err(Error::new("E722", claim).kind_is(ErrorKind::TagConflict { tags: names, of: of.to_owned(), transform }))
}

fn declared() -> std::sync::MutexGuard<'static, Vec<TagDecl>> {
    static DECLARED: Mutex<Vec<TagDecl>> = Mutex::new(Vec::new());
    DECLARED.lock().unwrap_or_else(|e| e.into_inner())
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.name())
    }
}

/// A set of tags.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TagSet(u64);

impl TagSet {
    /// The empty set.
    pub const EMPTY: TagSet = TagSet(0);

    /// The set with `tag`.
    pub const fn with(self, tag: Tag) -> TagSet {
        TagSet(self.0 | 1 << tag.0)
    }
    /// The set without `tag`.
    pub const fn without(self, tag: Tag) -> TagSet {
        TagSet(self.0 & !(1 << tag.0))
    }
    /// Whether `tag` is in the set.
    pub const fn contains(self, tag: Tag) -> bool {
        self.0 >> tag.0 & 1 == 1
    }
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }
    /// The set of these bits, which came from a set.
    pub(crate) const fn from_bits(bits: u64) -> TagSet {
        TagSet(bits)
    }
    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// The tags of either set.
    pub const fn union(self, other: TagSet) -> TagSet {
        TagSet(self.0 | other.0)
    }
    /// The tags of the set, in the order of declaration.
    pub fn iter(self) -> impl Iterator<Item = Tag> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let next = (rest != 0).then(|| Tag(rest.trailing_zeros() as u8));
            rest &= rest.wrapping_sub(1);
            next
        })
    }
    /// The tags that a new object gets, given that the event's policy must be one of `policies`.
    pub fn passing(self, event: Event, side: SplitSide, policies: &[Policy]) -> TagSet {
        let keep = |t: &Tag| policies.contains(&t.decl().policies.at(event, side));
        self.iter().filter(keep).fold(TagSet::EMPTY, TagSet::with)
    }
    /// The tags that stay on a value when a write makes its next version.
    pub fn at_write(self) -> TagSet {
        self.passing(
            Event::Functionalise,
            SplitSide::Before,
            &[Policy::Keep, Policy::All, Policy::Outputs, Policy::Union],
        )
    }
    /// The tags that neighbouring lines inherit.
    pub fn inherited(self) -> TagSet {
        self.iter().filter(|t| t.decl().inherit).fold(TagSet::EMPTY, TagSet::with)
    }

    /// The tags of the object that two objects become together, or the tag that forbids it.
    pub fn meet(self, other: TagSet, event: Event, side: SplitSide) -> Result<TagSet, Tag> {
        let mut met = TagSet::EMPTY;
        for tag in self.union(other).iter() {
            let both = self.contains(tag) == other.contains(tag);
            match tag.decl().policies.at(event, side) {
                Policy::MustAgree if !both => return Err(tag),
                Policy::Forbid => return Err(tag),
                Policy::Drop => {}
                _ => met = met.with(tag),
            }
        }
        Ok(met)
    }
}

impl fmt::Debug for TagSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<Tag> for TagSet {
    fn from_iter<I: IntoIterator<Item = Tag>>(iter: I) -> TagSet {
        iter.into_iter().fold(TagSet::EMPTY, TagSet::with)
    }
}

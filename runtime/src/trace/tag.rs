//! Tags: facts kept on proxies, bound symbols and regions that no row and no type states.
//!
//! A kind of tag is declared once, with the one carrier that it may stand on and what becomes of it at each structural
//! event: the policy table is total. What can be derived is no tag: detachment follows from the row `detach` and from
//! regions, randomness from keys and sites.

use crate::error::{Error, ErrorKind};
use std::fmt;
use std::sync::Mutex;

/// A kind of tag.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(u8);

/// What a tag stands on.
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
    /// What tags of it stand on.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Carrier::Value => "values",
            Carrier::Line => "lines",
            Carrier::Region => "regions",
        }
    }
}

/// Structural events: what transforms do to lines and values.
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

/// What becomes of a tag at an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// It stays on what keeps its identity.
    Keep,
    /// It goes.
    Drop,
    /// Every new object has it.
    All,
    /// Only the new objects that correspond to the old ones have it.
    Outputs,
    /// What comes together has the tags of all partners.
    Union,
    /// The event is refused if the partners differ.
    MustAgree,
    /// The event is refused.
    Forbid,
}

/// Before or after `split`.
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
    /// The same before and after `split`, in the order of [`Event`].
    pub const fn both(policies: [Policy; EVENTS]) -> Policies {
        Policies([policies, policies])
    }

    /// The same, with another policy for one event after `split`.
    pub const fn after_split(mut self, event: Event, policy: Policy) -> Policies {
        self.0[1][event as usize] = policy;
        self
    }

    /// The policy at an event.
    pub const fn at(&self, event: Event, side: SplitSide) -> Policy {
        self.0[side as usize][event as usize]
    }
}

/// The declaration of a kind of tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagDecl {
    /// Its name, printed as `#name`.
    pub name: &'static str,
    /// What it stands on.
    pub carrier: Carrier,
    /// Whether lines beside a kept line get it too.
    pub inherit: bool,
    /// Whether losing it is an error ([`ErrorKind::TagLost`](crate::ErrorKind::TagLost)).
    pub must_survive: bool,
    /// What becomes of it.
    pub policies: Policies,
}

use Policy::{All, Drop, Keep, MustAgree, Outputs, Union};

const SAVE: Policies = Policies::both([Keep, Outputs, Drop, Drop, Keep, Union, All, Drop]);
const RECOMPUTE: Policies = Policies::both([Keep, All, Drop, Drop, MustAgree, MustAgree, All, Keep])
    .after_split(Event::Fuse, Drop)
    .after_split(Event::Merge, Drop);
const GRAD_MODE: Policies =
    Policies::both([Keep, All, Drop, All, Keep, MustAgree, All, Keep]).after_split(Event::Merge, Keep);

/// What stands for a line that was seen, or runs it again, was seen with it; its gradient is new.
const SEEN: Policies = Policies::both([Keep, All, Drop, All, Union, Union, All, Keep]);

const fn decl(name: &'static str, carrier: Carrier, inherit: bool, must_survive: bool, policies: Policies) -> TagDecl {
    TagDecl { name, carrier, inherit, must_survive, policies }
}

/// The built-in kinds. Columns: replace, decompose, vjp, recompute, fuse, merge, unroll, functionalise.
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
    /// The value lives in the same memory for the whole run.
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
    /// Of checkpoint regions.
    pub const CHECKPOINT: Tag = Tag(6);
    /// Of autocast regions.
    pub const AUTOCAST: Tag = Tag(7);
    /// Of regions with gradients off.
    pub const NO_GRAD: Tag = Tag(8);
    /// Of regions with gradients on again.
    pub const ENABLE_GRAD: Tag = Tag(9);
    /// The transforms of a user at [`At::Acquired`](crate::transforms::At::Acquired) have seen the line.
    pub const SEEN_ACQUIRED: Tag = Tag(10);
    /// The transforms of a user at [`At::Joint`](crate::transforms::At::Joint) have seen the line.
    pub const SEEN_JOINT: Tag = Tag(11);

    /// Declares a kind, or finds the one that was declared so before.
    ///
    /// # Errors
    /// E724 if the name is taken by another declaration or is no identifier, or if there are 64 kinds already.
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

    /// The kind called `name`.
    pub fn find(name: &str) -> Option<Tag> {
        BUILT_IN.iter().chain(declared().iter()).position(|d| d.name == name).map(|i| Tag(i as u8))
    }

    /// Its declaration.
    pub fn decl(self) -> TagDecl {
        match BUILT_IN.get(self.0 as usize) {
            Some(decl) => *decl,
            // a `Tag` beyond the built-in ones was made by `declare`, which only appends
            None => declared()[self.0 as usize - BUILT_IN.len()],
        }
    }

    /// Whether it is one of the built-in kinds.
    pub fn is_built_in(self) -> bool {
        (self.0 as usize) < BUILT_IN.len()
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.decl().name
    }
}

/// Refuses tags of one value that exclude each other.
///
/// # Errors
/// E722.
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
    /// No tag.
    pub const EMPTY: TagSet = TagSet(0);

    /// The same and `tag`.
    pub const fn with(self, tag: Tag) -> TagSet {
        TagSet(self.0 | 1 << tag.0)
    }
    /// The same without `tag`.
    pub const fn without(self, tag: Tag) -> TagSet {
        TagSet(self.0 & !(1 << tag.0))
    }
    /// Whether `tag` is in it.
    pub const fn contains(self, tag: Tag) -> bool {
        self.0 >> tag.0 & 1 == 1
    }
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }
    /// The set of these bits, which a set gave.
    pub(crate) const fn from_bits(bits: u64) -> TagSet {
        TagSet(bits)
    }
    /// Whether nothing is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Tags of either.
    pub const fn union(self, other: TagSet) -> TagSet {
        TagSet(self.0 | other.0)
    }
    /// Its tags, in the order of declaration.
    pub fn iter(self) -> impl Iterator<Item = Tag> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let next = (rest != 0).then(|| Tag(rest.trailing_zeros() as u8));
            rest &= rest.wrapping_sub(1);
            next
        })
    }
    /// The tags that a new object has where this event's policy is one of `policies`.
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
    /// The inheritable tags.
    pub fn inherited(self) -> TagSet {
        self.iter().filter(|t| t.decl().inherit).fold(TagSet::EMPTY, TagSet::with)
    }

    /// The tags of what two objects become together; the tag that forbids it, if one does.
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

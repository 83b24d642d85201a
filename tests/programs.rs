//! The kernel's verifier takes the programs of every kind of measurement.

#![allow(clippy::unwrap_used, clippy::panic)]

mod requirements;

use rlat::histogram::{Linear, Unit};
use rlat::latency::layout::{CONTROL_MAP, CONTROL_WORDS, CPUS_MAP, Slot, region_words};
use rlat::latency::starts::{SLOTS_MAP, STARTS_MAP};
use rlat::latency::{
    Extremes, KernelReads, Member, Plan, PlannedCall, Returns, Room, Scope, TypedEntry, Way,
};
use rlat::loader::{Answer, Feature, load, probe};
use rlat::maps::{HashMap, MmapableArray};
use rlat::process::PidNamespace;

fn call(name: &str, number: u32) -> PlannedCall {
    PlannedCall {
        name: name.to_owned(),
        number: Some(number),
        argument_offset: Some(16),
        result_offset: 16,
    }
}

#[test]
fn the_verifier_takes_every_kind_of_program() {
    if !requirements::bpf() {
        return;
    }
    let linear = Linear::new(10, 100, 5).unwrap();
    let control = MmapableArray::create(CONTROL_MAP, CONTROL_WORDS, 1).unwrap();
    let slots = MmapableArray::create(SLOTS_MAP, 1024 * 8, 1).unwrap();
    let starts = HashMap::<u32, Slot>::create(STARTS_MAP, 10).unwrap();
    let words = region_words(linear.bucket_count());
    let cpus = MmapableArray::create(CPUS_MAP, words, 4).unwrap();
    let maps = [
        (CONTROL_MAP, control.number()),
        (SLOTS_MAP, slots.number()),
        (STARTS_MAP, starts.number()),
        (CPUS_MAP, cpus.number()),
    ];
    let outside = Member { namespace: PidNamespace::Initial, id: 1 };
    let inside = Member { namespace: PidNamespace::Other { dev: 4, ino: 4_026_531_999 }, id: 1 };
    let ways = [
        Way::Tracepoint,
        Way::Raw { reads: KernelReads::of_this_kernel(), typed: TypedEntry::of_this_kernel() },
        Way::Raw { reads: KernelReads::of_this_kernel(), typed: None },
        Way::Raw { reads: None, typed: None },
    ];
    for way in ways {
        for (extremes, direct_slots) in
            [(Extremes::CompareExchange, 1024), (Extremes::LoadStore, 0)]
        {
            // Before Linux 5.12 programs are not made so.
            if direct_slots > 0 && probe(Feature::FetchingAtomics) == Answer::No {
                continue;
            }
            for (members, calls, returns, descriptors, unit, linear) in [
                (vec![outside], vec![call("read", 0)], Returns::Any, vec![], Unit::Us, None),
                (
                    vec![inside, outside],
                    vec![call("read", 0), call("write", 1), call("fsync", 74)],
                    Returns::Zero,
                    vec![3, 4],
                    Unit::Ns,
                    Some(linear),
                ),
                (vec![inside], vec![call("read", 0)], Returns::Error, vec![3], Unit::S, None),
            ] {
                let plan = Plan {
                    scope: Scope::Processes(members),
                    calls,
                    descriptors,
                    returns,
                    unit,
                    linear,
                    room: Room { direct_slots, threads: 10, on_demand: false },
                    extremes,
                    way,
                };
                for (place, program) in plan.programs().unwrap() {
                    if let Err(error) = load(&program, plan.program_type(place), &maps) {
                        panic!("{place:?} of {plan:?}: {error}");
                    }
                }
            }
        }
    }
}

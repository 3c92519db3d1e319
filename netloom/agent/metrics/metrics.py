"""Every metric of an agent: its name, what it counts, and when to worry.

This is data and nothing else: `/metrics` and the reference pages are generated from it, and tests compare it
with the dashboard and the alerts. Names and units are as Prometheus recommends. Only this node's
configuration may determine the values of a label: there is no series for a container.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

# An ADD takes three milliseconds, one that waits in the queue a second, and none more than half a minute.
OPERATION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
PHASE_BUCKETS = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
COMMIT_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)


class Metric(Struct, frozen=True, kw_only=True):
    """`help` is one sentence, which Prometheus shows; `meaning` helps an operator decide what to do."""

    name: str
    kind: Kind
    help: str
    meaning: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()


_ALL = (
    # Requests.
    Metric(
        name="netloom_operations_total",
        kind="counter",
        labels=("verb", "result"),
        help="Requests of runtimes that the agent answered, by verb and result.",
        meaning=(
            "`result` is `done` or `failed`. Each failed ADD is a container that does not start; alert on "
            "their ratio. A failed STATUS means that an ADD would have failed at that time. Verbs that CNI "
            "does not define are counted as `other`."
        ),
    ),
    Metric(
        name="netloom_operation_errors_total",
        kind="counter",
        labels=("verb", "code"),
        help="Requests of runtimes that failed, by verb and error code.",
        meaning=(
            "`netloom explain CODE` says what a code means. 11 is temporary, and runtimes try again; 5 is "
            "the disk; 7 an invalid configuration; 100 and above are netloom's own; 999 is a defect. A "
            "series appears with the first error of its code."
        ),
    ),
    Metric(
        name="netloom_operation_duration_seconds",
        kind="histogram",
        labels=("verb",),
        unit="seconds",
        buckets=OPERATION_BUCKETS,
        help="Time that requests took in the agent, from arrival to answer.",
        meaning=(
            "An ADD takes some milliseconds on an idle node. The start of the plugin process, which the "
            "agent cannot measure, is not included. Worry when the 99th percentile of ADD is above a second: "
            "then look at the phases."
        ),
    ),
    Metric(
        name="netloom_phase_duration_seconds",
        kind="histogram",
        labels=("verb", "phase"),
        unit="seconds",
        buckets=PHASE_BUCKETS,
        help="Time that each phase of requests took.",
        meaning=(
            "Shows where the time is spent: `queue` is waiting for another request of the same attachment; "
            "`reserve`, `mark`, `commit` and `release` are the journal and its disk; `kernel` is the kernel; "
            "`undo` is the rollback of a failed ADD."
        ),
    ),
    Metric(
        name="netloom_requests_under_way",
        kind="gauge",
        help="Requests that the agent has accepted and not answered yet.",
        meaning=(
            "High values are normal while a node starts its containers. If the value stays high and no "
            "request is answered, the journal or the kernel hangs; `/livez` says which."
        ),
    ),
    # The dataplane.
    Metric(
        name="netloom_queue_depth",
        kind="gauge",
        labels=("lane",),
        help="Kernel changes that are waiting or in progress, by lane.",
        meaning=(
            "There is one lane for additions and one for removals. Compare with `netloom_queue_limit`: at "
            "the limit, requests fail with code 11."
        ),
    ),
    Metric(
        name="netloom_queue_limit",
        kind="gauge",
        help="Maximum number of kernel changes in each lane.",
        meaning="A constant. Compare it with `netloom_queue_depth`.",
    ),
    Metric(
        name="netloom_kernel_notifications_lost_total",
        kind="counter",
        help="How often the kernel dropped notifications because the agent did not read them in time.",
        meaning=(
            "No change is missed: the agent then reads the kernel's state. If it grows often, the node is "
            "overloaded."
        ),
    ),
    # What is attached, and addresses.
    Metric(
        name="netloom_attachments",
        kind="gauge",
        labels=("state",),
        help="Attachments in the journal, by state.",
        meaning=(
            "`committed` attachments are complete. `pending` and `deleting` last milliseconds: one that "
            "stays was interrupted and cannot be removed; the log says why."
        ),
    ),
    Metric(
        name="netloom_pool_addresses",
        kind="gauge",
        labels=("network", "pool", "state"),
        help="Addresses of a network's pool, by state.",
        meaning=(
            "`held`: an attachment has it. `resting`: in cooldown after a DEL. `free`: available. If no pool "
            "of a family has a free address, ADDs fail with code 11 until a cooldown ends."
        ),
    ),
    Metric(
        name="netloom_pool_capacity_addresses",
        kind="gauge",
        labels=("network", "pool"),
        help="Number of addresses in a network's pool.",
        meaning="The sum of all states of `netloom_pool_addresses`. For an IPv6 pool it is huge.",
    ),
    # What the agent does by itself.
    Metric(
        name="netloom_repairs_total",
        kind="counter",
        labels=("kind",),
        help="Missing kernel objects of attachments that the agent put back, by kind.",
        meaning=(
            "Something removes netloom's objects: another network manager, a script, a person. A few repairs "
            "are harmless. If they do not stop, find the cause: `netloom events` names the objects."
        ),
    ),
    Metric(
        name="netloom_repair_failures_total",
        kind="counter",
        help="Failed attempts to repair an attachment.",
        meaning="The container's network is broken until one succeeds; the log has the kernel's error.",
    ),
    Metric(
        name="netloom_tables_laid_total",
        kind="counter",
        help="How often the nft table was incomplete and the agent restored it.",
        meaning=(
            "Another program flushes the firewall, as `nft flush ruleset` does. Until the agent notices, up "
            "to a second later, spoofing protection, isolation and host ports do not work."
        ),
    ),
    Metric(
        name="netloom_releases_total",
        kind="counter",
        labels=("reason",),
        help="Attachments that the agent released without a DEL, by reason.",
        meaning=(
            "`gc`: the runtime's GC did not list it as valid. `namespace`: its namespace no longer existed. "
            "In both cases the runtime sent no DEL, for example because it crashed."
        ),
    ),
    Metric(
        name="netloom_replayed_dels_total",
        kind="counter",
        help="Queued DELs that the agent replayed.",
        meaning=(
            "The plugin queues a DEL while no agent answers. No DEL is lost; a high number means that the "
            "agent was down for long."
        ),
    ),
    Metric(
        name="netloom_unfinished_adds_total",
        kind="counter",
        help="Failed ADDs whose rollback failed, too.",
        meaning="The agent keeps trying. Worry if `netloom_attachments` stays above 0 for `pending`.",
    ),
    Metric(
        name="netloom_strangers_total",
        kind="counter",
        help="How often a DEL found an object of another program in place of netloom's and kept it.",
        meaning="Another program creates links or routes with names or addresses of netloom's.",
    ),
    Metric(
        name="netloom_forgotten_connections_total",
        kind="counter",
        help="Stale tracked connections that the agent removed after a host port changed.",
        meaning="For information. It grows when containers with UDP or SCTP ports start and stop.",
    ),
    Metric(
        name="netloom_network_files_restored_total",
        kind="counter",
        help="Missing network files that the agent restored.",
        meaning=(
            "The agent restores the file only after `netloom up --keep-network`. If the number grows, "
            "something deletes the file repeatedly, as a scheduled `podman system prune` does."
        ),
    ),
    # The journal.
    Metric(
        name="netloom_journal_commit_duration_seconds",
        kind="histogram",
        labels=("durable",),
        unit="seconds",
        buckets=COMMIT_BUCKETS,
        help="Time that the journal's transactions took.",
        meaning=(
            '`durable="yes"` waits for the disk: above 50 ms, the disk slows every ADD and DEL. '
            '`durable="no"` does not wait, and takes less than a millisecond.'
        ),
    ),
    Metric(
        name="netloom_journal_writable",
        kind="gauge",
        help="Whether the journal can be written: 1 if its last change was stored, 0 if not.",
        meaning="At 0, every ADD fails. Check the disk: space, mount, errors in `dmesg`.",
    ),
    Metric(
        name="netloom_journal_size_bytes",
        kind="gauge",
        unit="bytes",
        help="Size of the journal's files.",
        meaning="Some megabytes. It is bounded: the journal keeps the last 20,000 operations.",
    ),
    Metric(
        name="netloom_queued_dels",
        kind="gauge",
        help="Queued DELs that the agent has not replayed yet.",
        meaning=(
            "Above 0 for longer than some seconds, their replay fails. The log says why; the agent tries "
            "every second."
        ),
    ),
    # How the node is.
    Metric(
        name="netloom_ready",
        kind="gauge",
        help="Whether an ADD would succeed now on every network of this node: 1 or 0.",
        meaning="At 0, `/readyz` and `netloom status` say why and what to do.",
    ),
    Metric(
        name="netloom_network_ready",
        kind="gauge",
        labels=("network",),
        help="Whether an ADD to this network would succeed now: 1 or 0.",
        meaning="At 0, `/readyz?network=NAME` says why. The networks are those in `--conf-dir`.",
    ),
    Metric(
        name="netloom_troubles",
        kind="gauge",
        help="Number of findings that make every ADD on this node fail.",
        meaning="Above 0, ADDs fail. `netloom status` lists the findings.",
    ),
    Metric(
        name="netloom_findings",
        kind="gauge",
        labels=("code",),
        help="Current findings of the agent about the node, by code.",
        meaning=(
            "`netloom status` shows the text and the next step, `netloom explain CODE` the background. "
            "Without findings, the metric has no sample."
        ),
    ),
    Metric(
        name="netloom_firewall_drops",
        kind="gauge",
        labels=("severity",),
        help="Chains of other firewalls that drop traffic of containers, by severity.",
        meaning=(
            "`error`: containers cannot reach the outside or each other, or the host cannot reach them; ADDs "
            "still work. `warning`: it concerns the host's own ports, host ports or some of the traffic. "
            "`netloom doctor` names each chain and the command that opens it. The agent checks every ten "
            "seconds at most."
        ),
    ),
    Metric(
        name="netloom_build_info",
        kind="gauge",
        labels=("version",),
        help="The version of the agent; the value is 1.",
        meaning="Shows which version each node runs, for example during an upgrade.",
    ),
    Metric(
        name="netloom_start_time_seconds",
        kind="gauge",
        unit="seconds",
        help="Time at which the agent began to serve, in seconds since 1970.",
        meaning=(
            "It changes with every start. Several starts in an hour mean that the agent crashes or is "
            "killed: check its log, and `dmesg` for out-of-memory kills."
        ),
    ),
    # The process, by the names that all Prometheus libraries use.
    Metric(
        name="process_cpu_seconds_total",
        kind="counter",
        unit="seconds",
        help="CPU time that the agent has used.",
        meaning="Its rate is the share of one core: near 0 on an idle node.",
    ),
    Metric(
        name="process_resident_memory_bytes",
        kind="gauge",
        unit="bytes",
        help="Resident memory of the agent.",
        meaning="Some tens of megabytes. A value that grows for days is a defect.",
    ),
    Metric(
        name="process_virtual_memory_bytes",
        kind="gauge",
        unit="bytes",
        help="Virtual memory of the agent.",
        meaning="Larger than the resident memory, and no concern by itself.",
    ),
    Metric(
        name="process_open_fds",
        kind="gauge",
        help="File descriptors that the agent has open.",
        meaning="Each request in progress has some. A value that only grows is a defect.",
    ),
    Metric(
        name="process_max_fds",
        kind="gauge",
        help="Maximum number of file descriptors that the agent may have open.",
        meaning="Compare it with `process_open_fds`.",
    ),
    Metric(
        name="process_start_time_seconds",
        kind="gauge",
        unit="seconds",
        help="Start time of the agent's process, in seconds since 1970.",
        meaning="A little earlier than `netloom_start_time_seconds`.",
    ),
)

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ALL}

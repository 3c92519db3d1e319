"""Every metric that an agent tells: its name, what it counts, and when to worry.

This is data and nothing else: `/metrics` is written from it, the reference has a page for each, and tests
hold the dashboard and the alerts against it. Names and units are as Prometheus recommends. No label has a
value that somebody outside of this node's configuration can choose: there is no series for a container.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

# An ADD takes three milliseconds, one that waits for its turn a second, and none more than half a minute.
OPERATION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
PHASE_BUCKETS = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
COMMIT_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)


class Metric(Struct, frozen=True, kw_only=True):
    """`help` is one sentence, as Prometheus shows it; `meaning` is for whoever has to decide what to do."""

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
        help="Requests of runtimes that were answered, by verb and by how they ended.",
        meaning=(
            "`result` is `done` or `failed`. Failures of ADD are containers that do not start; their ratio "
            "is what to alert on. Failures of STATUS say that nothing could be attached when it was asked. "
            "Verbs that CNI does not know are counted as `other`."
        ),
    ),
    Metric(
        name="netloom_operation_errors_total",
        kind="counter",
        labels=("verb", "code"),
        help="Requests of runtimes that failed, by verb and by code of the error.",
        meaning=(
            "`netloom explain CODE` says what a code means. 11 is tried again by runtimes and passes; 5 is "
            "the disk; 7 a configuration that never works; 100 and above are netloom's own; 999 a defect. A "
            "series appears with the first error of its code."
        ),
    ),
    Metric(
        name="netloom_operation_duration_seconds",
        kind="histogram",
        labels=("verb",),
        unit="seconds",
        buckets=OPERATION_BUCKETS,
        help="How long requests took in the agent, from their arrival to the answer.",
        meaning=(
            "An ADD takes some milliseconds on an idle node. The plugin's own start, which the agent cannot "
            "see, comes on top. Worry when the 99th percentile of ADD is above a second: then look at the "
            "phases."
        ),
    ),
    Metric(
        name="netloom_phase_duration_seconds",
        kind="histogram",
        labels=("verb", "phase"),
        unit="seconds",
        buckets=PHASE_BUCKETS,
        help="How long each phase of requests took.",
        meaning=(
            "Where the time goes: `queue` is waiting for another request of the same attachment, `reserve`, "
            "`mark`, `commit` and `release` are the journal and its disk, `kernel` is the kernel, `undo` "
            "takes back what failed."
        ),
    ),
    Metric(
        name="netloom_requests_under_way",
        kind="gauge",
        help="Requests that the agent has taken and not answered yet.",
        meaning=(
            "Many at a time are normal while a node starts its containers. A number that stays high while "
            "nothing is answered means that journal or kernel hang; `/livez` says which."
        ),
    ),
    # The dataplane.
    Metric(
        name="netloom_queue_depth",
        kind="gauge",
        labels=("lane",),
        help="Changes to the kernel that wait or are being made, by lane.",
        meaning=(
            "Adding and removing have a lane each. Compare with `netloom_queue_limit`: at the limit, "
            "requests fail with code 11."
        ),
    ),
    Metric(
        name="netloom_queue_limit",
        kind="gauge",
        help="How many changes may be under way in each lane.",
        meaning="A constant, to be compared with `netloom_queue_depth`.",
    ),
    Metric(
        name="netloom_kernel_notifications_lost_total",
        kind="counter",
        help="How often the kernel dropped notifications because they were not read in time.",
        meaning=(
            "Nothing is missed: the agent then looks for itself. Often, it means that the node has no time."
        ),
    ),
    # What is attached, and addresses.
    Metric(
        name="netloom_attachments",
        kind="gauge",
        labels=("state",),
        help="Attachments in the journal, by state.",
        meaning=(
            "`committed` are whole. `pending` and `deleting` are under way, and come and go within "
            "milliseconds: one that stays was cut off and cannot be taken away; the log says why."
        ),
    ),
    Metric(
        name="netloom_pool_addresses",
        kind="gauge",
        labels=("network", "pool", "state"),
        help="Addresses of a network's pool, by state.",
        meaning=(
            "`held` by attachments, `resting` after one was deleted, `free` for the next. When none is free "
            "in any pool of a family, ADDs fail with code 11 until one has rested."
        ),
    ),
    Metric(
        name="netloom_pool_capacity_addresses",
        kind="gauge",
        labels=("network", "pool"),
        help="Addresses that a network's pool can give in all.",
        meaning="The sum of the states of `netloom_pool_addresses`. Of an IPv6 pool it is huge.",
    ),
    # What the agent does by itself.
    Metric(
        name="netloom_repairs_total",
        kind="counter",
        labels=("kind",),
        help="Objects of attachments that were missing in the kernel and were put back, by kind.",
        meaning=(
            "Something removes what netloom made: another network manager, a script, a person. A few are "
            "harmless. When it does not stop, find out who does it: `netloom events` names the objects."
        ),
    ),
    Metric(
        name="netloom_repair_failures_total",
        kind="counter",
        help="Attempts to put back what an attachment had lost that failed.",
        meaning="The container's network is broken until one succeeds; the log has the kernel's words.",
    ),
    Metric(
        name="netloom_tables_laid_total",
        kind="counter",
        help="How often the nft table was not whole and was laid down anew.",
        meaning=(
            "Somebody flushes the firewall, as `nft flush ruleset` does. Until the agent sees it, up to a "
            "second later, containers are not guarded and host ports lead nowhere."
        ),
    ),
    Metric(
        name="netloom_releases_total",
        kind="counter",
        labels=("reason",),
        help="Attachments that were released without a DEL, by reason.",
        meaning=(
            "`gc`: the runtime's GC did not call it valid. `namespace`: its namespace was gone. Both mean "
            "that a DEL never came, as after a runtime crashed."
        ),
    ),
    Metric(
        name="netloom_replayed_dels_total",
        kind="counter",
        help="Queued DELs that the agent has done.",
        meaning=(
            "They came while no agent answered. None is lost; many mean that the agent was away for long."
        ),
    ),
    Metric(
        name="netloom_unfinished_adds_total",
        kind="counter",
        help="ADDs that failed and could not be taken back at once.",
        meaning="The agent goes on trying. Worry if `netloom_attachments` keeps some that are `pending`.",
    ),
    Metric(
        name="netloom_strangers_total",
        kind="counter",
        help="How often a DEL met something else in the place of ours and left it alone.",
        meaning="Somebody else makes links or routes with names or addresses of netloom's.",
    ),
    Metric(
        name="netloom_forgotten_connections_total",
        kind="counter",
        help="Tracked connections that a host port had made stale and that were forgotten.",
        meaning="For curiosity. It grows when containers with UDP or SCTP ports come and go.",
    ),
    Metric(
        name="netloom_network_files_restored_total",
        kind="counter",
        help="Missing files of networks that the agent has written again.",
        meaning=(
            "The agent restores the file only after `netloom up --keep-network`. A number that grows means "
            "that something deletes the file again and again, as a scheduled `podman system prune` does."
        ),
    ),
    # The journal.
    Metric(
        name="netloom_journal_commit_duration_seconds",
        kind="histogram",
        labels=("durable",),
        unit="seconds",
        buckets=COMMIT_BUCKETS,
        help="How long the journal's transactions took.",
        meaning=(
            '`durable="yes"` waits for the disk: above 50 ms, the disk is what slows every ADD and DEL. '
            '`durable="no"` does not, and takes less than a millisecond.'
        ),
    ),
    Metric(
        name="netloom_journal_writable",
        kind="gauge",
        help="Whether the journal takes changes: 1 if the last one was written, 0 if not.",
        meaning="At 0 nothing can be attached. Look at the disk: space, mount, errors in `dmesg`.",
    ),
    Metric(
        name="netloom_journal_size_bytes",
        kind="gauge",
        unit="bytes",
        help="Size of the journal's files.",
        meaning="Some megabytes. It is bounded: the log of operations keeps the last 20,000.",
    ),
    Metric(
        name="netloom_queued_dels",
        kind="gauge",
        help="DELs that the plugin has queued and that are not done yet.",
        meaning=(
            "Above 0 for longer than some seconds: they fail. The log says why; they are tried every second."
        ),
    ),
    # How the node is.
    Metric(
        name="netloom_ready",
        kind="gauge",
        help="Whether an ADD would work now on every network of this node: 1 or 0.",
        meaning="At 0, `/readyz` and `netloom status` say why, and what to do.",
    ),
    Metric(
        name="netloom_network_ready",
        kind="gauge",
        labels=("network",),
        help="Whether an ADD to this network would work now: 1 or 0.",
        meaning="At 0, `/readyz?network=NAME` says why. Networks are those of the files in `--conf-dir`.",
    ),
    Metric(
        name="netloom_troubles",
        kind="gauge",
        help="Things that the agent knows to be wrong with the node.",
        meaning="Above 0, ADDs fail. `netloom status` names them.",
    ),
    Metric(
        name="netloom_findings",
        kind="gauge",
        labels=("code",),
        help="What the agent finds wrong with the node now, by the code of the finding.",
        meaning=(
            "`netloom status` has the text and the next step, `netloom explain CODE` the background. Without "
            "any finding, the metric has no sample."
        ),
    ),
    Metric(
        name="netloom_firewall_drops",
        kind="gauge",
        labels=("severity",),
        help="Chains of other firewalls that drop traffic of containers, by severity.",
        meaning=(
            "`error` keeps containers from the outside or from each other, or the host from them; ADDs still "
            "work. `warning` is about the host's own ports, host ports or some of the traffic. `netloom "
            "doctor` names each chain and the command that opens it. It is judged every ten seconds at most."
        ),
    ),
    Metric(
        name="netloom_build_info",
        kind="gauge",
        labels=("version",),
        help="The version of the agent; the value is 1.",
        meaning="Which versions run where, as while nodes are upgraded.",
    ),
    Metric(
        name="netloom_start_time_seconds",
        kind="gauge",
        unit="seconds",
        help="When the agent began to serve, in seconds since 1970.",
        meaning=(
            "It changes with every start. Several in an hour mean that the agent crashes or is killed: look "
            "at its log, and in `dmesg` for want of memory."
        ),
    ),
    # The process, by the names that all of Prometheus' libraries have for it.
    Metric(
        name="process_cpu_seconds_total",
        kind="counter",
        unit="seconds",
        help="CPU time that the agent has used.",
        meaning="Its rate is the share of one core: near 0 when nothing happens.",
    ),
    Metric(
        name="process_resident_memory_bytes",
        kind="gauge",
        unit="bytes",
        help="Memory that the agent has in RAM.",
        meaning="Some tens of megabytes. One that grows for days is a defect.",
    ),
    Metric(
        name="process_virtual_memory_bytes",
        kind="gauge",
        unit="bytes",
        help="Address space of the agent.",
        meaning="Larger than what is in RAM, and of no concern by itself.",
    ),
    Metric(
        name="process_open_fds",
        kind="gauge",
        help="Descriptors that the agent has open.",
        meaning="Each request has some while it is under way. One that only grows is a defect.",
    ),
    Metric(
        name="process_max_fds",
        kind="gauge",
        help="How many descriptors the agent may have open.",
        meaning="To be compared with `process_open_fds`.",
    ),
    Metric(
        name="process_start_time_seconds",
        kind="gauge",
        unit="seconds",
        help="When the agent's process was started, in seconds since 1970.",
        meaning="As `netloom_start_time_seconds`, and a little earlier.",
    ),
)

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ALL}

"""Hub of the processes of one node: in place of ZooKeeper, it keeps their metadata log, members, controller and holds.

A *hold* is the right of one process to open the log of a partition. `state` decides without I/O; the supervisor runs it
and owns the files at the top of the log dirs. A process reaches it over a socket pair (`link`, `messages`): `session`
implements MetadataStore and Membership, `notes` the state of log dirs. The end of the socket is the end of the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.cluster.hub.hub import Hub as Hub
    from barnabas.cluster.hub.hub import HubProcess as HubProcess
    from barnabas.cluster.hub.link import HubChannel as HubChannel
    from barnabas.cluster.hub.link import LinkLostError as LinkLostError
    from barnabas.cluster.hub.link import encode_frame as encode_frame
    from barnabas.cluster.hub.log_dirs import NodeLogDirs as NodeLogDirs
    from barnabas.cluster.hub.messages import AboutLogDir as AboutLogDir
    from barnabas.cluster.hub.messages import KeepCompanion as KeepCompanion
    from barnabas.cluster.hub.messages import MonitorConnected as MonitorConnected
    from barnabas.cluster.hub.messages import ProcessFailed as ProcessFailed
    from barnabas.cluster.hub.messages import StopProcess as StopProcess
    from barnabas.cluster.hub.messages import ToHub as ToHub
    from barnabas.cluster.hub.messages import ToProcess as ToProcess
    from barnabas.cluster.hub.notes import HubLogDirState as HubLogDirState
    from barnabas.cluster.hub.notes import NotesChannel as NotesChannel
    from barnabas.cluster.hub.session import HubConnection as HubConnection
    from barnabas.cluster.hub.session import HubSession as HubSession
else:
    __getattr__ = lazy_exports(__name__)

"""Which Service of which cluster a slice belongs to, in every style, and why a slice is not read."""

import pytest

from gdsvc.backends.mcs.naming import Mode, Reason, ServiceKey, exporter_in_name, place, service_name_fault
from tests.unit.backends.mcs.slice_objects import (
    KARMADA_DISPATCH,
    KARMADA_IMPORT,
    MANAGED_BY,
    MCS_CLUSTER,
    MCS_SERVICE,
    OWN,
    SERVICE_NAME,
    dispatched,
    karmada_import,
    made,
    standard,
)

MEMBER1 = ServiceKey("member1", "relay", "pool-gw")
CILIUM = "endpointslice-mesh-controller.cilium.io"

# ------------------------------------------------------------------------------------------------- standard


def test_the_labels_of_the_mcs_api_name_service_and_site() -> None:
    assert place(standard(service="pool-gw", cluster="east"), Mode.MCS) == ServiceKey("east", "relay", "pool-gw")


def test_the_derived_service_that_an_implementation_adds_is_not_the_service() -> None:
    labels = {SERVICE_NAME: "derived-se6uo1bmt5", MCS_SERVICE: "pool-gw", MCS_CLUSTER: "cluster2", MANAGED_BY: CILIUM}
    assert place(made(labels=labels), Mode.MCS) == ServiceKey("cluster2", "relay", "pool-gw")


def test_a_standard_slice_needs_no_controller_that_we_know() -> None:
    labels = {MCS_SERVICE: "pool-gw", MCS_CLUSTER: "east"}
    assert place(made(labels=labels), Mode.MCS) == ServiceKey("east", "relay", "pool-gw")


def test_a_source_cluster_without_a_service_is_skipped() -> None:
    labels = {SERVICE_NAME: "pool-gw", MCS_CLUSTER: "cluster2", MANAGED_BY: CILIUM}
    assert place(made(labels=labels), Mode.MCS) is Reason.NO_SERVICE_NAME


def test_a_service_without_a_source_cluster_is_skipped() -> None:
    assert place(made(labels={MCS_SERVICE: "pool-gw"}), Mode.MCS) is Reason.NO_SOURCE_CLUSTER


@pytest.mark.parametrize(("service", "cluster"), [("", "east"), ("pool-gw", "")])
def test_an_empty_label_is_an_absent_one(service: str, cluster: str) -> None:
    assert isinstance(place(standard(service=service, cluster=cluster), Mode.MCS), Reason)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_clusters_own_slice_is_skipped_whatever_labels_it_copied(mode: Mode) -> None:
    labels = {SERVICE_NAME: "pool-gw", MCS_SERVICE: "pool-gw", MCS_CLUSTER: "east", MANAGED_BY: OWN}
    assert place(made(labels=labels), mode) is Reason.OWN


def test_slices_of_the_other_style_are_skipped() -> None:
    assert place(standard(), Mode.KARMADA) is Reason.OTHER_STYLE
    assert place(dispatched("pool-gw", "member1"), Mode.MCS) is Reason.OTHER_STYLE
    assert place(karmada_import("imported-member1-pool-gw-7k2fx", "derived-pool-gw", "member1"), Mode.MCS) is (
        Reason.OTHER_STYLE
    )


@pytest.mark.parametrize("mode", list(Mode))
def test_a_slice_without_any_label_is_of_no_style(mode: Mode) -> None:
    assert place(made(labels=None), mode) is Reason.OTHER_STYLE


# -------------------------------------------------------------------------------------------------- Karmada


def test_in_the_control_plane_the_work_annotation_names_the_source() -> None:
    assert place(karmada_import("imported-member1-pool-gw-7k2fx", "derived-pool-gw", "member1"), Mode.KARMADA) == (
        MEMBER1
    )


def test_in_a_member_cluster_the_name_wins_over_the_annotation() -> None:
    assert place(karmada_import("imported-member1-pool-gw-7k2fx", "derived-pool-gw", "member2"), Mode.KARMADA) == (
        MEMBER1
    )


def test_the_name_is_enough_without_an_annotation() -> None:
    assert place(karmada_import("imported-member1-pool-gw-7k2fx", "derived-pool-gw", None), Mode.KARMADA) == MEMBER1


@pytest.mark.parametrize("name", ["pool-gw-7k2fx", "imported-7k2fx", "imported-pool-gw-7k2fx", "imported-", ""])
def test_the_annotation_decides_where_the_name_names_no_cluster(name: str) -> None:
    assert place(karmada_import(name, "derived-pool-gw", "member1"), Mode.KARMADA) == MEMBER1


@pytest.mark.parametrize("announced", [None, ""])
def test_a_karmada_slice_that_names_no_cluster_anywhere_is_skipped(announced: str | None) -> None:
    assert place(karmada_import("pool-gw-7k2fx", "derived-pool-gw", announced), Mode.KARMADA) is (
        Reason.NO_SOURCE_CLUSTER
    )


def test_an_annotation_that_is_no_execution_space_names_no_cluster() -> None:
    labels = {SERVICE_NAME: "derived-pool-gw", MANAGED_BY: KARMADA_IMPORT}
    given = made("pool-gw-7k2fx", labels=labels, annotations={"work.karmada.io/namespace": "kube-system"})
    assert place(given, Mode.KARMADA) is Reason.NO_SOURCE_CLUSTER


@pytest.mark.parametrize("label", ["pool-gw", "derived-", ""])
def test_an_imported_service_is_named_derived(label: str) -> None:
    assert place(karmada_import("imported-member1-pool-gw-7k2fx", label, "member1"), Mode.KARMADA) is (
        Reason.NOT_DERIVED
    )


def test_only_one_derived_is_taken_off() -> None:
    given = karmada_import("imported-member1-derived-x-gw-7k2fx", "derived-derived-x-gw", "member1")
    assert place(given, Mode.KARMADA) == ServiceKey("member1", "relay", "derived-x-gw")


@pytest.mark.parametrize(
    ("name", "service", "announced", "cluster"),
    [
        ("imported-us-east-2-pool-gw-7k2fx", "pool-gw", "importer", "us-east-2"),
        ("imported-a-b-c-d-pool-gw-7k2fx", "pool-gw", "", "a-b-c-d"),
        ("imported-imported-x-pool-gw-7k2fx", "pool-gw", "", "imported-x"),
        # the cluster's name holds that of the Service
        ("imported-x-pool-gw-y-pool-gw-7k2fx", "pool-gw", "importer", "x-pool-gw-y"),
        ("imported-x-pool-gw-y-pool-gw-7k2fx", "pool-gw", "x", "x-pool-gw-y"),  # which imports it
        ("imported-a-a-a-7k2fx", "a", "", "a-a"),
        ("imported-pool-gw-pool-gw-7k2fx", "pool-gw", "", "pool-gw"),
        # the name was not generated: the annotation helps where the name can be read so
        ("imported-east-gw-by-hand", "gw", "", "east"),
        ("imported-east-gw-by-gw-hand", "gw", "east", "east"),
        ("imported-east-gw-by-gw-hand", "gw", "west", "east-gw-by"),
        ("imported-east-pool-gw", "pool-gw", "importer", "east"),
        ("imported-east-pool-gw", "gw", "east-pool", "east-pool"),
        # and where nothing can be read
        ("imported-east-other-7k2fx", "pool-gw", "east", None),
        ("imported--pool-gw-7k2fx", "pool-gw", "", None),
        ("imported-pool-gw", "pool-gw", "", None),
        ("east-pool-gw-7k2fx", "pool-gw", "east", None),
    ],
)
def test_the_cluster_is_read_from_a_name_that_may_hold_dashes(
    name: str, service: str, announced: str, cluster: str | None
) -> None:
    assert exporter_in_name(name, service, announced) == cluster


def test_a_dispatched_slice_has_its_cluster_in_an_annotation_and_its_service_undecorated() -> None:
    assert place(dispatched("pool-gw", "member1"), Mode.KARMADA) == MEMBER1


def test_nothing_is_taken_off_a_dispatched_service() -> None:
    assert place(dispatched("derived-gw", "member1"), Mode.KARMADA) == ServiceKey("member1", "relay", "derived-gw")


def test_a_dispatched_slice_without_its_annotation_or_service_is_skipped() -> None:
    assert place(dispatched("pool-gw", None), Mode.KARMADA) is Reason.NO_SOURCE_CLUSTER
    assert place(dispatched("", "member1"), Mode.KARMADA) is Reason.NO_SERVICE_NAME


# ---------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", [" member1", "mem\nber", "\u202emember", "m" * 254, "\x00"])
def test_a_cluster_that_no_pool_can_be_in_is_skipped(name: str) -> None:
    labels = {SERVICE_NAME: "pool-gw", MANAGED_BY: KARMADA_DISPATCH}
    given = made(labels=labels, annotations={"endpointslice.karmada.io/provision-cluster": name})
    assert place(given, Mode.KARMADA) is Reason.BAD_NAME


def test_a_slice_without_a_namespace_is_skipped() -> None:
    assert place(standard(namespace=""), Mode.MCS) is Reason.BAD_NAME


@pytest.mark.parametrize(("length", "fits"), [(55, True), (56, False)])
def test_a_karmada_service_has_at_most_55_characters(length: int, fits: bool) -> None:
    assert (service_name_fault("s" * length, Mode.KARMADA) is None) is fits


@pytest.mark.parametrize(("length", "fits"), [(63, True), (64, False)])
def test_a_standard_service_has_at_most_63_characters(length: int, fits: bool) -> None:
    assert (service_name_fault("s" * length, Mode.MCS) is None) is fits


def test_the_fault_of_a_long_name_says_both_lengths() -> None:
    assert service_name_fault("s" * 56, Mode.KARMADA) == (
        "expected a Service name of at most 55 characters, got 56: derived- and the name must fit 63"
    )

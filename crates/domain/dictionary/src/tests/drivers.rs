//! Counters of `ethtool -S` that mean loss or errors, by driver: names as the drivers of Linux 6.x print them.

use sockeye_dictionary::Dictionary;

const DRIVERS: &[(&str, &str)] = &[
    (
        "e1000e",
        "rx_errors tx_errors tx_dropped collisions rx_length_errors rx_over_errors rx_crc_errors rx_frame_errors rx_no_buffer_count \
         rx_missed_errors tx_aborted_errors tx_carrier_errors tx_fifo_errors tx_heartbeat_errors tx_window_errors tx_abort_late_coll \
         tx_timeout_count rx_long_length_errors rx_short_length_errors rx_align_errors tx_tcp_seg_failed rx_flow_control_xoff \
         rx_csum_offload_errors alloc_rx_buff_failed dropped_smbus rx_dma_failed tx_dma_failed rx_hwtstamp_cleared uncorr_ecc_errors \
         corr_ecc_errors tx_hwtstamp_timeouts",
    ),
    (
        "igb",
        "rx_crc_errors rx_no_buffer_count rx_missed_errors tx_aborted_errors tx_carrier_errors tx_window_errors tx_abort_late_coll \
         tx_timeout_count rx_long_length_errors rx_short_length_errors rx_align_errors rx_flow_control_xoff tx_dropped rx_errors \
         tx_errors rx_length_errors rx_over_errors rx_frame_errors rx_fifo_errors tx_fifo_errors tx_heartbeat_errors tx_hwtstamp_timeouts \
         rx_hwtstamp_cleared rx_queue_0_drops rx_queue_0_csum_err rx_queue_0_alloc_failed rx_queue_7_drops",
    ),
    (
        "ixgbe",
        "rx_errors tx_errors rx_dropped tx_dropped collisions rx_over_errors rx_crc_errors rx_frame_errors fdir_overflow rx_fifo_errors \
         rx_missed_errors tx_aborted_errors tx_carrier_errors tx_fifo_errors tx_heartbeat_errors tx_timeout_count rx_length_errors \
         rx_long_length_errors rx_short_length_errors rx_flow_control_xoff tx_flow_control_xoff rx_csum_offload_errors \
         alloc_rx_page_failed alloc_rx_buff_failed rx_no_dma_resources tx_hwtstamp_timeouts rx_hwtstamp_cleared",
    ),
    (
        "i40e",
        "rx_errors tx_errors rx_dropped tx_dropped rx_length_errors rx_crc_errors port.rx_dropped port.tx_dropped_link_down \
         port.rx_crc_errors port.illegal_bytes port.mac_local_faults port.mac_remote_faults port.tx_timeout port.rx_csum_bad \
         port.rx_length_errors port.link_xoff_rx port.link_xoff_tx port.rx_undersize port.rx_fragments port.rx_oversize \
         port.rx_jabber veb.rx_discards veb.tx_discards veb.tx_errors rx_alloc_fail rx_pg_alloc_fail tx_busy tx_linearize",
    ),
    (
        "ice",
        "rx_dropped rx_unknown_protocol rx_alloc_fail rx_pg_alloc_fail tx_errors tx_busy tx_errors.nic tx_timeout.nic link_xoff_rx.nic \
         link_xoff_tx.nic tx_dropped_link_down.nic rx_undersize.nic rx_fragments.nic rx_oversize.nic rx_jabber.nic rx_csum_bad.nic \
         rx_length_errors.nic rx_dropped.nic rx_crc_errors.nic illegal_bytes.nic mac_local_faults.nic mac_remote_faults.nic",
    ),
    (
        "mlx5",
        "rx_out_of_buffer rx_if_down_packets rx_steer_missed_packets rx_oversize_pkts_sw_drop rx_discards_phy tx_discards_phy tx_errors_phy \
         rx_crc_errors_phy rx_in_range_len_errors_phy rx_out_of_range_len_phy rx_oversize_pkts_phy rx_symbol_err_phy \
         rx_undersize_pkts_phy rx_fragments_phy rx_jabbers_phy link_down_events_phy rx_pcs_symbol_err_phy rx_err_lane_0_phy \
         rx_buffer_passed_thres_phy rx_pause_ctrl_phy tx_pause_ctrl_phy rx_prio3_pause tx_prio3_pause rx_prio0_discards \
         rx_pci_signal_integrity tx_pci_signal_integrity outbound_pci_stalled_wr outbound_pci_buffer_overflow module_bus_stuck \
         module_high_temp tx_queue_dropped tx_cqe_err rx_wqe_err rx_buff_alloc_err tx0_dropped tx12_cqe_err rx3_wqe_err \
         rx3_buff_alloc_err rx3_xdp_drop tx3_xdp_full tx3_xdp_err rx0_oversize_pkts_sw_drop tx_recover rx_recover rx_arfs_err \
         tx_pause_storm_warning_events tx_pause_storm_error_events rx_xdp_tx_full rx_xdp_tx_err",
    ),
    (
        "mlx4",
        "rx_errors tx_errors rx_dropped tx_dropped rx_length_errors rx_over_errors rx_crc_errors rx_jabbers rx_in_range_length_error \
         rx_out_range_length_error tx_timeout rx_fifo_errors rx0_dropped tx_queue_stopped queue_stopped rx_pause tx_pause \
         rx_prio_0_pause",
    ),
    (
        "bnxt",
        "[0]: rx_discards [0]: rx_errors [0]: tx_discards [0]: tx_errors [0]: rx_l4_csum_errors [0]: rx_oom_discards [3]: rx_drops \
         rx_total_discard_pkts tx_total_discard_pkts rx_fcs_err_frames rx_align_err_frames rx_ovrsz_frames rx_jbr_frames \
         rx_mtu_err_frames rx_undrsz_frames rx_runt_frames rx_stat_discard rx_stat_err tx_jabber_frames tx_fcs_err_frames tx_err \
         tx_fifo_underruns tx_total_collisions tx_stat_discard tx_stat_error link_down_events continuous_pause_events rx_pause_frames \
         rx_pfc_ena_frames_pri3",
    ),
    (
        "tg3",
        "rx_fragments rx_fcs_errors rx_align_errors rx_xoff_pause_rcvd rx_frame_too_long_errors rx_jabbers rx_undersize_packets \
         rx_in_length_errors rx_out_length_errors tx_mac_errors tx_excessive_collisions tx_late_collisions tx_discards tx_errors \
         rxbds_empty rx_discards rx_errors rx_threshold_hit tx_carrier_sense_errors",
    ),
    (
        "bnx2x",
        "[0]: rx_discards [0]: rx_phy_ip_err_discards [0]: rx_skb_alloc_discard [0]: rx_csum_offload_errors rx_error_bytes rx_crc_errors \
         rx_align_errors rx_undersize_packets rx_oversize_packets rx_fragments rx_jabbers rx_discards rx_filtered_packets \
         rx_mf_tag_discard rx_brb_discard rx_brb_truncate rx_constant_pause_events rx_phy_ip_err_discards rx_skb_alloc_discard \
         rx_csum_offload_errors tx_error_bytes tx_mac_errors tx_carrier_errors tx_excess_collisions tx_late_collisions \
         recoverable_errors unrecoverable_errors",
    ),
    (
        "ena",
        "tx_timeout wd_expired bw_in_allowance_exceeded bw_out_allowance_exceeded pps_allowance_exceeded conntrack_allowance_exceeded \
         linklocal_allowance_exceeded queue_0_tx_dma_mapping_err queue_0_tx_linearize_failed queue_0_tx_prepare_ctx_err \
         queue_0_tx_bad_req_id queue_0_tx_missed_tx queue_0_tx_queue_stop queue_0_rx_refil_partial queue_0_rx_bad_csum \
         queue_0_rx_page_alloc_fail queue_0_rx_skb_alloc_fail queue_0_rx_dma_mapping_err queue_0_rx_bad_desc_num \
         queue_0_rx_bad_req_id queue_0_rx_empty_rx_ring ena_admin_q_out_of_space ena_admin_q_no_completion interface_down",
    ),
    (
        "virtio_net",
        "rx_queue_0_drops rx_queue_0_xdp_drops rx_drops rx_xdp_drops tx_queue_0_xdp_tx_drops tx_queue_0_tx_timeouts rx0_drops tx0_xdp_tx_drops \
         rx_hw_drops rx_hw_drop_overruns tx_hw_drops tx_hw_drop_malformed tx_xdp_tx_drops tx_timeouts",
    ),
    (
        "netvsc",
        "tx_no_memory tx_no_space tx_too_big tx_busy tx_send_full rx_comp_busy rx_no_memory stop_queue vlan_error rx_queue_0_xdp_drop",
    ),
    (
        "r8169",
        "tx_errors rx_errors rx_missed align_errors tx_single_collisions tx_multi_collisions tx_aborted tx_underrun",
    ),
    (
        "gve",
        "rx_dropped tx_dropped tx_timeouts rx_skb_alloc_fail rx_buf_alloc_fail rx_desc_err_dropped_pkt interface_down_cnt reset_cnt \
         page_alloc_fail dma_mapping_error rx_drops_packet_over_mru[0] rx_drops_invalid_checksum[0] rx_xdp_aborted[0] tx_stop[0] \
         tx_dma_mapping_error[0] rx_queue_drop_cnt[0] rx_no_buffers_posted[0]",
    ),
];

#[test]
fn counters_of_loss_of_each_driver_have_an_entry() {
    let dictionary = Dictionary::new();
    let mut all = 0;
    let mut unknown = Vec::new();
    for (driver, names) in DRIVERS {
        // The number of a ring is apart from the name.
        let mut ring = "";
        for name in names.split_whitespace() {
            if name.starts_with('[') {
                ring = name;
                continue;
            }
            let name = format!("{ring} {name}");
            ring = "";
            all += 1;
            if dictionary.counter(name.trim()).is_none() {
                unknown.push(format!("{driver}: {name}"));
            }
        }
    }
    assert!(all > 300, "{all}");
    assert!(
        unknown.len() * 50 <= all,
        "{} of {all} are unknown: {unknown:#?}",
        unknown.len()
    );
}

"""Reads the configurations of the sample models. Those of mmdetection3d get OpenPCDet's names for their keys."""

import runpy

import yaml

import network
import scenes


def read(path):
    """(configuration, grid, network)."""
    if path.suffix == ".yaml":
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        pillars = scenes.Pillars(config)
        return config, pillars, network.PointPillar(config, pillars.cells[:2])
    config = of_mmdet3d(runpy.run_path(str(path)))
    return config, scenes.Means(config), network.Second(config)


def of_mmdet3d(file):
    model = file["model"]
    voxels, encoder = model["data_preprocessor"]["voxel_layer"], model["middle_encoder"]
    backbone, neck, head = model["backbone"], model["neck"], model["bbox_head"]
    generator, assigners = head["anchor_generator"], model["train_cfg"]["assigner"]
    lowered = 2 ** (len(encoder["encoder_channels"]) - 1)
    groups = [
        {
            "class_name": name,
            "anchor_sizes": [size],
            "anchor_rotations": generator["rotations"],
            "anchor_bottom_heights": [generator["ranges"][0][2]],
            "feature_map_stride": lowered * backbone["layer_strides"][0] // neck["upsample_strides"][0],
            "matched_threshold": assigner["pos_iou_thr"],
            "unmatched_threshold": assigner["neg_iou_thr"],
        }
        for name, size, assigner in zip(file["class_names"], generator["sizes"], assigners)
    ]
    step = {"VOXEL_SIZE": voxels["voxel_size"], "MAX_POINTS_PER_VOXEL": voxels["max_num_points"]}
    return {
        "CLASS_NAMES": file["class_names"],
        "DATA_CONFIG": {"POINT_CLOUD_RANGE": voxels["point_cloud_range"], "DATA_PROCESSOR": [step]},
        "MODEL": {
            "BACKBONE_3D": encoder,
            "MAP_TO_BEV": {"NUM_BEV_FEATURES": backbone["in_channels"]},
            "BACKBONE_2D": {
                "LAYER_NUMS": backbone["layer_nums"],
                "LAYER_STRIDES": backbone["layer_strides"],
                "NUM_FILTERS": backbone["out_channels"],
                "UPSAMPLE_STRIDES": neck["upsample_strides"],
                "NUM_UPSAMPLE_FILTERS": neck["out_channels"],
            },
            "DENSE_HEAD": {"DIR_OFFSET": head["dir_offset"], "NUM_DIR_BINS": 2, "ANCHOR_GENERATOR_CONFIG": groups},
        },
    }

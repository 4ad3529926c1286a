"""Every key of a configuration that the converter knows, and what it does with the key.

A row of a table is a key's path and a rule. A path has no index of a list, and no `pts_` before the name of a part. A
dict's rule, unless it is TAKEN, holds for the keys below that have no rows of their own. A key without a rule is
refused."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from .config import Config
from .state import ConvertError


class Rule(NamedTuple):
    what: str
    values: Tuple[Any, ...] = ()
    reason: str = ""
    below: bool = True  # whether the rule holds for the keys of a dict too


TAKEN = Rule("taken", below=False)  # the converter reads the value
HARMLESS = Rule("harmless")  # of training, of files, of reports; or visible in the tensors' shapes
CLIENT = Rule("client")  # how points are prepared, which is up to the client: gives a note


def only(*values: Any, because: str = "") -> Rule:
    return Rule("only", values, because)


def unset(because: str) -> Rule:
    """The key must be absent, false or empty."""
    return Rule("unset", reason=because)


Table = Dict[str, Rule]
HEAD_OF_ITS_OWN = unset("only heads with one convolution for each map can be converted")
STAGE = unset("only networks with one backbone and one head can be converted")
OTHER_HEAD = unset("only AnchorHeadSingle and CenterHead can be converted")
DISTANCE = unset("pillar_features does not have the distance of a point")
DEFORMABLE = unset("deformable convolutions cannot be converted")
AUGMENTED = unset("a scan is detected once, without flips or scales")

BACKBONES_3D = ("VoxelBackBone8x", "VoxelResBackBone8x")
BEV_BACKBONE = (
    "LAYER_NUMS",
    "LAYER_STRIDES",
    "NUM_FILTERS",
    "UPSAMPLE_STRIDES",
    "NUM_UPSAMPLE_FILTERS",
    "USE_CONV_FOR_NO_STRIDE",
)

OPENPCDET: Table = {
    "CLASS_NAMES": TAKEN,
    "OPTIMIZATION": HARMLESS,
    "HOOK": HARMLESS,
    "ROOT_DIR": HARMLESS,
    "LOCAL_RANK": HARMLESS,
    "TAG": HARMLESS,
    "EXP_GROUP_PATH": HARMLESS,
    # points and pillars
    "DATA_CONFIG": HARMLESS,
    "DATA_CONFIG.POINT_CLOUD_RANGE": TAKEN,
    "DATA_CONFIG.POINT_FEATURE_ENCODING": TAKEN,
    "DATA_CONFIG.POINT_FEATURE_ENCODING.encoding_type": only("absolute_coordinates_encoding"),
    "DATA_CONFIG.POINT_FEATURE_ENCODING.used_feature_list": TAKEN,
    "DATA_CONFIG.POINT_FEATURE_ENCODING.src_feature_list": TAKEN,
    "DATA_CONFIG.POINT_FEATURE_ENCODING.filter_sweeps": CLIENT,
    "DATA_CONFIG.POINT_FEATURE_ENCODING.max_sweeps": CLIENT,
    "DATA_CONFIG.FOV_POINTS_ONLY": CLIENT,
    "DATA_CONFIG.MAX_SWEEPS": CLIENT,
    "DATA_CONFIG.SEQUENCE_CONFIG": CLIENT,
    "DATA_CONFIG.POINTS_TANH_DIM": CLIENT,
    "DATA_CONFIG.POINT_PAINTING": CLIENT,
    "DATA_CONFIG.LIDAR_DEVICE": CLIENT,
    "DATA_CONFIG.DISABLE_NLZ_FLAG_ON_POINTS": CLIENT,
    "DATA_CONFIG.TEST_AUGMENTOR": AUGMENTED,
    "DATA_CONFIG.DATA_PROCESSOR": TAKEN,
    "DATA_CONFIG.DATA_PROCESSOR.SHUFFLE_ENABLED": HARMLESS,
    **{
        f"DATA_CONFIG.DATA_PROCESSOR.{key}": HARMLESS  # of boxes in training
        for key in ("REMOVE_OUTSIDE_BOXES", "min_num_corners", "USE_CENTER_TO_FILTER")
    },
    "DATA_CONFIG.DATA_PROCESSOR.NAME": only(
        "mask_points_and_boxes_outside_range",
        "shuffle_points",
        "transform_points_to_voxels",
        "transform_points_to_voxels_placeholder",
    ),
    "DATA_CONFIG.DATA_PROCESSOR.VOXEL_SIZE": TAKEN,
    "DATA_CONFIG.DATA_PROCESSOR.MAX_POINTS_PER_VOXEL": TAKEN,
    "DATA_CONFIG.DATA_PROCESSOR.MAX_NUMBER_OF_VOXELS": TAKEN,
    "DATA_CONFIG.DATA_PROCESSOR.MAX_NUMBER_OF_VOXELS.train": HARMLESS,
    "DATA_CONFIG.DATA_PROCESSOR.MAX_NUMBER_OF_VOXELS.test": TAKEN,
    "DATA_CONFIG.DATA_PROCESSOR.DOUBLE_FLIP": AUGMENTED,
    # the network
    "MODEL.NAME": TAKEN,
    "MODEL.VFE.NAME": TAKEN,
    "MODEL.VFE.WITH_DISTANCE": DISTANCE,
    "MODEL.VFE.USE_ABSLOTE_XYZ": TAKEN,
    "MODEL.VFE.USE_CLUSTER_XYZ": HARMLESS,  # no encoder reads the key
    "MODEL.VFE.USE_NORM": TAKEN,
    "MODEL.VFE.NUM_FILTERS": TAKEN,
    "MODEL.MAP_TO_BEV.NAME": TAKEN,
    "MODEL.MAP_TO_BEV.NUM_BEV_FEATURES": HARMLESS,
    "MODEL.MAP_TO_BEV.INPUT_SHAPE": unset("only pillars of one layer can be scattered"),
    "MODEL.BACKBONE_2D.NAME": TAKEN,
    **{f"MODEL.BACKBONE_2D.{key}": TAKEN for key in BEV_BACKBONE},
    "MODEL.BACKBONE_3D": unset("only backbones without this key can be converted"),
    "MODEL.BACKBONE_3D.NAME": only(*BACKBONES_3D),
    "MODEL.BACKBONE_3D.USE_BIAS": HARMLESS,  # the state has the biases or lacks them
    "MODEL.BACKBONE_3D.last_pad": only(0, because="only maps of the usual number of cells along z can be converted"),
    "MODEL.PFE": STAGE,
    "MODEL.POINT_HEAD": STAGE,
    "MODEL.ROI_HEAD": STAGE,
    # both heads
    "MODEL.DENSE_HEAD.NAME": TAKEN,
    **{
        f"MODEL.{place}POST_PROCESSING.{key}": TAKEN
        for place in ("", "DENSE_HEAD.")
        for key in (
            "SCORE_THRESH",
            *(f"NMS_CONFIG.NMS_{key}" for key in ("TYPE", "THRESH", "PRE_MAXSIZE", "POST_MAXSIZE")),
        )
    },
    "MODEL.DENSE_HEAD.CLASS_AGNOSTIC": unset("only heads with a score for each class can be decoded"),
    "MODEL.DENSE_HEAD.INPUT_FEATURES": HARMLESS,
    "MODEL.DENSE_HEAD.LOSS_CONFIG": HARMLESS,
    "MODEL.DENSE_HEAD.TARGET_ASSIGNER_CONFIG": HARMLESS,
    "MODEL.DENSE_HEAD.TARGET_ASSIGNER_CONFIG.FEATURE_MAP_STRIDE": TAKEN,
    "MODEL.DENSE_HEAD.TARGET_ASSIGNER_CONFIG.BOX_CODER": TAKEN,
    "MODEL.DENSE_HEAD.TARGET_ASSIGNER_CONFIG.BOX_CODER_CONFIG.code_size": only(
        7, 9, because="only boxes of 7 values and boxes with a velocity can be decoded"
    ),
    "MODEL.DENSE_HEAD.TARGET_ASSIGNER_CONFIG.BOX_CODER_CONFIG.encode_angle_by_sincos": TAKEN,
    # heads of anchors
    "MODEL.DENSE_HEAD.USE_DIRECTION_CLASSIFIER": HARMLESS,  # the state has the layer or lacks it
    "MODEL.DENSE_HEAD.DIR_OFFSET": TAKEN,
    "MODEL.DENSE_HEAD.DIR_LIMIT_OFFSET": TAKEN,
    "MODEL.DENSE_HEAD.NUM_DIR_BINS": TAKEN,
    "MODEL.DENSE_HEAD.ANCHOR_GENERATOR_CONFIG.class_name": HARMLESS,
    "MODEL.DENSE_HEAD.ANCHOR_GENERATOR_CONFIG.matched_threshold": HARMLESS,
    "MODEL.DENSE_HEAD.ANCHOR_GENERATOR_CONFIG.unmatched_threshold": HARMLESS,
    "MODEL.DENSE_HEAD.ANCHOR_GENERATOR_CONFIG.anchor_sizes": TAKEN,
    "MODEL.DENSE_HEAD.ANCHOR_GENERATOR_CONFIG.anchor_rotations": TAKEN,
    "MODEL.DENSE_HEAD.ANCHOR_GENERATOR_CONFIG.anchor_bottom_heights": TAKEN,
    "MODEL.DENSE_HEAD.ANCHOR_GENERATOR_CONFIG.align_center": TAKEN,
    "MODEL.DENSE_HEAD.ANCHOR_GENERATOR_CONFIG.feature_map_stride": TAKEN,
    "MODEL.DENSE_HEAD.USE_MULTIHEAD": TAKEN,
    "MODEL.DENSE_HEAD.SEPARATE_MULTIHEAD": TAKEN,
    "MODEL.DENSE_HEAD.SHARED_CONV_NUM_FILTER": TAKEN,
    **{f"MODEL.DENSE_HEAD.RPN_HEAD_CFGS.{key}": TAKEN for key in ("HEAD_CLS_NAME", *BEV_BACKBONE)},
    **{
        f"MODEL.DENSE_HEAD.SEPARATE_REG_CONFIG.{key}": TAKEN
        for key in ("NUM_MIDDLE_CONV", "NUM_MIDDLE_FILTER", "REG_LIST")
    },
    "MODEL.POST_PROCESSING.RECALL_THRESH_LIST": HARMLESS,
    "MODEL.POST_PROCESSING.MULTI_CLASSES_NMS": HARMLESS,  # no head reads the key here
    "MODEL.POST_PROCESSING.EVAL_METRIC": HARMLESS,
    "MODEL.POST_PROCESSING.OUTPUT_RAW_SCORE": unset("a box has the score that selected the box"),
    "MODEL.POST_PROCESSING.NMS_CONFIG.MULTI_CLASSES_NMS": TAKEN,
    # heads of centres
    "MODEL.DENSE_HEAD.CLASS_NAMES_EACH_HEAD": TAKEN,
    "MODEL.DENSE_HEAD.SHARED_CONV_CHANNEL": TAKEN,
    "MODEL.DENSE_HEAD.USE_BIAS_BEFORE_NORM": HARMLESS,  # the state has the biases or lacks them
    "MODEL.DENSE_HEAD.NUM_HM_CONV": TAKEN,
    "MODEL.DENSE_HEAD.BN_EPS": TAKEN,
    "MODEL.DENSE_HEAD.BN_MOM": HARMLESS,
    "MODEL.DENSE_HEAD.SEPARATE_HEAD_CFG.HEAD_ORDER": TAKEN,
    **{
        f"MODEL.DENSE_HEAD.SEPARATE_HEAD_CFG.HEAD_DICT.{name}.{key}": rule
        for name in ("center", "center_z", "dim", "rot", "vel", "iou")
        for key, rule in (("out_channels", HARMLESS), ("num_conv", TAKEN))
    },
    "MODEL.DENSE_HEAD.IOU_REG_LOSS": HARMLESS,
    "MODEL.DENSE_HEAD.IOU_BRANCH": OTHER_HEAD,
    "MODEL.DENSE_HEAD.KERNEL_SIZE_HEAD": OTHER_HEAD,
    "MODEL.DENSE_HEAD.RECTIFIER": OTHER_HEAD,
    "MODEL.DENSE_HEAD.POST_PROCESSING.POST_CENTER_LIMIT_RANGE": TAKEN,
    "MODEL.DENSE_HEAD.POST_PROCESSING.MAX_OBJ_PER_SAMPLE": TAKEN,
    "MODEL.DENSE_HEAD.POST_PROCESSING.USE_IOU_TO_RECTIFY_SCORE": TAKEN,
    "MODEL.DENSE_HEAD.POST_PROCESSING.IOU_RECTIFIER": TAKEN,
    "MODEL.DENSE_HEAD.POST_PROCESSING.NMS_CONFIG.MULTI_CLASSES_NMS": HARMLESS,  # the centre head does not read the key
    "MODEL.DENSE_HEAD.POST_PROCESSING.NMS_CONFIG.SCORE_THRESH": unset("one score threshold holds for all classes"),
}


def _part(part: str, /, **rules: Rule) -> Table:
    return {f"model.{part}.{key}": rule for key, rule in rules.items()}


def _norm(part: str) -> Table:
    """The arguments of mmcv's build_norm_layer."""
    frozen = only(True, because="norms of other kinds cannot be folded")
    types = only("BN", "BN1d", "BN2d", "SyncBN", "naiveSyncBN1d", "naiveSyncBN2d", because=frozen.reason)
    keys = {"type": types, "eps": TAKEN, "momentum": HARMLESS, "requires_grad": HARMLESS}
    rules = {**keys, "affine": frozen, "track_running_stats": frozen}
    return {f"model.{part}.norm_cfg.{key}": rule for key, rule in rules.items()}


def _conv(part: str, key: str, kind: str) -> Table:
    return {f"model.{part}.{key}.type": only(kind), f"model.{part}.{key}.bias": unset("the layer has a norm")}


MMDET3D: Table = {
    "*": HARMLESS,  # names of the file's own, of training and of data
    "point_cloud_range": TAKEN,
    "class_names": TAKEN,
    "metainfo": HARMLESS,
    "metainfo.classes": TAKEN,
    "test_dataloader": HARMLESS,
    "tta_model": HARMLESS,  # tools/test.py takes the model only with --tta
    "data": HARMLESS,
    "data_preprocessor": HARMLESS,  # mmengine takes the keys below it, if the model has none
    **{
        f"{place}.pipeline.{key}": rule
        for place in ("test_dataloader.dataset", "data.test")  # of 1.1 and later, of 1.0
        for key, rule in {
            **{key: CLIENT for key in ("use_dim", "sweeps_num", "norm_intensity", "norm_elongation", "remove_close")},
            "shift_height": CLIENT,
            "flip": AUGMENTED,
            "pts_scale_ratio": only(1, because=AUGMENTED.reason),
            "transforms.rot_range": only([0, 0], because=AUGMENTED.reason),
            "transforms.scale_ratio_range": only([1, 1], because=AUGMENTED.reason),
            "transforms.translation_std": only([0, 0, 0], because=AUGMENTED.reason),
        }.items()
    },
    "model.type": TAKEN,
    "model.train_cfg": HARMLESS,
    "model.init_cfg": HARMLESS,
    "model.pretrained": HARMLESS,
    # points and pillars
    **{
        f"model.data_preprocessor.{key}": HARMLESS  # of images and of batches
        for key in ("mean", "std", "pad_size_divisor", "pad_value", "pad_mask", "mask_pad_value", "pad_seg")
        + (
            "seg_pad_value",
            "bgr_to_rgb",
            "rgb_to_bgr",
            "boxtype2tensor",
            "non_blocking",
            "batch_augments",
            "batch_first",
        )
    },
    "model.data_preprocessor.type": only("Det3DDataPreprocessor"),
    "model.data_preprocessor.voxel": only(True),
    "model.data_preprocessor.voxel_type": only("hard"),
    "model.data_preprocessor.max_voxels": HARMLESS,  # of the voxel type minkunet
    **{
        f"model.{place}.{key}": rule
        for place in ("data_preprocessor.voxel_layer", "voxel_layer")
        for key, rule in {
            "max_num_points": TAKEN,
            "point_cloud_range": TAKEN,
            "voxel_size": TAKEN,
            "max_voxels": TAKEN,
            "deterministic": HARMLESS,  # voxels are numbered by their first points here, always
            "grid_shape": unset("the voxel size must be given"),
        }.items()
    },
    # the network
    **_part(
        "voxel_encoder",
        type=TAKEN,
        in_channels=TAKEN,
        feat_channels=TAKEN,
        with_distance=DISTANCE,
        with_cluster_center=TAKEN,
        with_voxel_center=TAKEN,
        legacy=TAKEN,
        voxel_size=TAKEN,
        point_cloud_range=TAKEN,
        mode=only("max", because="the encoder takes the largest values of a pillar"),
        init_cfg=HARMLESS,
        num_features=TAKEN,
    ),
    **_norm("voxel_encoder"),
    **_part(
        "middle_encoder",
        type=TAKEN,
        in_channels=HARMLESS,
        output_shape=TAKEN,
        sparse_shape=TAKEN,
        order=only(["conv", "norm", "act"], because="norms before or after other layers cannot be folded"),
        encoder_channels=TAKEN,
        encoder_paddings=TAKEN,
        base_channels=TAKEN,
        output_channels=TAKEN,
        block_type=only("conv_module", "basicblock"),
        return_middle_feats=unset("only the map seen from above is computed"),
    ),
    **_norm("middle_encoder"),
    **_part(
        "backbone",
        type=TAKEN,
        in_channels=HARMLESS,
        layer_nums=TAKEN,
        layer_strides=TAKEN,
        out_channels=TAKEN,
        init_cfg=HARMLESS,
        pretrained=HARMLESS,
    ),
    **_norm("backbone"),
    **_conv("backbone", "conv_cfg", "Conv2d"),
    **_part(
        "neck",
        type=TAKEN,
        in_channels=HARMLESS,
        out_channels=TAKEN,
        upsample_strides=TAKEN,
        use_conv_for_no_stride=TAKEN,
        init_cfg=HARMLESS,
    ),
    **_norm("neck"),
    **_conv("neck", "conv_cfg", "Conv2d"),
    **_conv("neck", "upsample_cfg", "deconv"),
    # both heads
    **_part(
        "bbox_head",
        type=TAKEN,
        in_channels=HARMLESS,
        loss_cls=HARMLESS,
        loss_bbox=HARMLESS,
        loss_dir=HARMLESS,
        train_cfg=HARMLESS,
        init_cfg=HARMLESS,
    ),
    "model.bbox_head.bbox_coder.type": TAKEN,
    # heads of anchors
    **_part(
        "bbox_head",
        num_classes=TAKEN,
        feat_channels=HARMLESS,
        use_direction_classifier=HARMLESS,  # the state has the layer or lacks it
        assigner_per_size=HARMLESS,
        assign_per_class=HARMLESS,
        diff_rad_by_sin=HARMLESS,
        dir_offset=TAKEN,
        dir_limit_offset=TAKEN,
    ),
    "model.bbox_head.loss_cls.use_sigmoid": only(True, because="only scores by the sigmoid can be decoded"),
    "model.bbox_head.bbox_coder.code_size": TAKEN,
    **_part(
        "bbox_head.anchor_generator",
        type=TAKEN,
        ranges=TAKEN,
        sizes=TAKEN,
        scales=only([1], because="only anchors of one map can be decoded"),
        rotations=TAKEN,
        custom_values=only([], [0, 0], because="only boxes of 7 values and boxes with a velocity can be decoded"),
        reshape_out=HARMLESS,
        size_per_range=only(True),
        align_corner=unset("only anchors in the middle of cells can be decoded"),
    ),
    # heads of centres
    **_part(
        "bbox_head",
        norm_bbox=only(True, because="only logarithms of sizes can be decoded"),
        share_conv_channel=TAKEN,
        num_heatmap_convs=TAKEN,
        bias=HARMLESS,  # the state has the biases or lacks them
    ),
    "model.bbox_head.conv_cfg.type": only("Conv2d"),
    "model.bbox_head.conv_cfg.bias": HARMLESS,
    **_norm("bbox_head"),
    "model.bbox_head.tasks.num_class": HARMLESS,
    "model.bbox_head.tasks.class_names": TAKEN,
    **{f"model.bbox_head.tasks.{key}": HEAD_OF_ITS_OWN for key in ("shared_conv_channels", "shared_conv_strides")},
    "model.bbox_head.tasks.norm_cfg": HEAD_OF_ITS_OWN,
    **{f"model.bbox_head.common_heads.{name}": TAKEN for name in ("reg", "height", "dim", "rot", "vel")},
    "model.bbox_head.separate_head.type": TAKEN,
    **{f"model.bbox_head.separate_head.{key}": HARMLESS for key in ("init_bias", "final_kernel", "head_conv", "bias")},
    "model.bbox_head.separate_head.conv_cfg.type": only("Conv2d"),
    "model.bbox_head.separate_head.conv_cfg.bias": HARMLESS,
    "model.bbox_head.separate_head.dcn_config": DEFORMABLE,
    **_norm("bbox_head.separate_head"),
    **{
        f"model.bbox_head.bbox_coder.{key}": TAKEN
        for key in ("pc_range", "voxel_size", "out_size_factor", "post_center_range", "max_num", "score_threshold")
    },
    # both heads; MVXFasterRCNN and CenterPoint have the keys below `pts`
    **{
        f"model.test_cfg.{place}{key}": rule
        for place in ("", "pts.")
        for key, rule in {
            **{key: TAKEN for key in ("nms_thr", "score_thr", "nms_pre", "max_num")},
            **{key: TAKEN for key in ("nms_type", "pre_max_size", "post_max_size", "min_radius", "score_threshold")},
            "use_rotate_nms": only(True, because="boxes are compared with their headings"),
            "max_pool_nms": unset("the largest value around a cell is not searched"),
            "nms_across_levels": HARMLESS,  # there is one level
            "min_bbox_size": HARMLESS,  # no head reads this key and the next ones; box coders have their own
            "post_center_limit_range": HARMLESS,
            "max_per_img": HARMLESS,
            "out_size_factor": HARMLESS,
            "voxel_size": HARMLESS,
            "pc_range": HARMLESS,
        }.items()
    },
    # parts of other heads, necks and backbones, which are refused by their types
    **{
        f"model.bbox_head.{key}": unset("only Anchor3DHead and CenterHead can be converted")
        for key in ("alpha", "gamma", "bbox_thr", "pre_anchor_topk")
    },
    **{
        f"model.backbone.{key}": unset("only the backbone SECOND can be converted")
        for key in ("arch", "base_channels", "frozen_stages", "norm_eval", "out_indices")
        + ("stem_channels", "strides", "style")
    },
    **{
        f"model.neck.{key}": unset("only the neck SECONDFPN can be converted")
        for key in ("act_cfg", "num_outs", "start_level")
    },
}

DET3D: Table = {
    "*": HARMLESS,  # names of the file's own, of training and of data
    "class_names": HARMLESS,
    "nsweeps": CLIENT,
    "model.type": TAKEN,
    "model.pretrained": HARMLESS,
    **_part(
        "reader",
        type=TAKEN,
        num_filters=TAKEN,
        num_input_features=TAKEN,
        with_distance=DISTANCE,
        voxel_size=TAKEN,
        pc_range=TAKEN,
        virtual=unset("virtual points cannot be converted"),
    ),
    **_norm("reader"),
    **_part("backbone", type=TAKEN, ds_factor=HARMLESS, num_input_features=TAKEN, name=HARMLESS),
    **_norm("backbone"),
    **_part(
        "neck",
        type=TAKEN,
        layer_nums=TAKEN,
        ds_layer_strides=TAKEN,
        ds_num_filters=TAKEN,
        us_layer_strides=TAKEN,
        us_num_filters=TAKEN,
        num_input_features=HARMLESS,
        logger=HARMLESS,
        name=HARMLESS,
    ),
    **_norm("neck"),
    **_part(
        "bbox_head",
        type=TAKEN,
        in_channels=HARMLESS,
        dataset=HARMLESS,
        weight=HARMLESS,
        code_weights=HARMLESS,
        iou_weight=HARMLESS,
        logger=HARMLESS,
        init_bias=HARMLESS,
        share_conv_channel=TAKEN,
        num_hm_conv=TAKEN,
        dcn_head=DEFORMABLE,
    ),
    "model.bbox_head.tasks.num_class": HARMLESS,
    "model.bbox_head.tasks.class_names": TAKEN,
    **{f"model.bbox_head.common_heads.{name}": TAKEN for name in ("reg", "height", "dim", "rot", "vel", "iou")},
    **{
        f"model.{key}": STAGE
        for key in ("first_stage_cfg", "second_stage_modules", "roi_head", "NMS_POST_MAXSIZE", "num_point", "freeze")
    },
    "test_cfg.post_center_limit_range": TAKEN,
    "test_cfg.score_threshold": TAKEN,
    "test_cfg.cf_weight": TAKEN,
    "test_cfg.pc_range": TAKEN,
    "test_cfg.voxel_size": TAKEN,
    "test_cfg.out_size_factor": TAKEN,
    "test_cfg.max_per_img": HARMLESS,  # no head reads the key
    "test_cfg.circular_nms": TAKEN,
    "test_cfg.min_radius": TAKEN,
    "test_cfg.nms.nms_pre_max_size": TAKEN,
    "test_cfg.nms.nms_post_max_size": TAKEN,
    "test_cfg.nms.nms_iou_threshold": TAKEN,
    "test_cfg.nms.use_rotate_nms": HARMLESS,  # no head reads these keys
    "test_cfg.nms.use_multi_class_nms": HARMLESS,
    "test_cfg.rectifier": unset("boxes rank by the scores that the answer has"),
    "test_cfg.per_class_nms": unset("boxes are suppressed whatever their classes are"),
    "test_cfg.double_flip": AUGMENTED,
    "voxel_generator.range": TAKEN,
    "voxel_generator.voxel_size": TAKEN,
    "voxel_generator.max_points_in_voxel": TAKEN,
    "voxel_generator.max_voxel_num": TAKEN,
    "voxel_generator.double_flip": AUGMENTED,
}


def rule_of(table: Table, path: str) -> Rule:
    names = [name.removeprefix("pts_") if place == 1 else name for place, name in enumerate(path.split("."))]
    for count in range(len(names), 0, -1):
        rule = table.get(".".join(names[:count]))
        if rule and (count == len(names) or rule.below):
            return rule
        if rule:
            break
    if "*" in table and not any(path.startswith(f"{names[0]}.") for path in table):
        return table["*"]
    raise ConvertError(
        f"{path}: the converter does not know this key; remove the key if it changes neither network nor boxes"
    )


def check(table: Table, config: Config) -> List[str]:
    """Refuses unknown keys, and values that cannot be converted. Returns notes on keys of the rule CLIENT."""
    notes: Dict[str, str] = {}
    for path, value in walk(config.values):
        rule = rule_of(table, path)
        reason = refusal(rule, path, value)
        if reason:
            raise ConvertError(reason)
        if rule is CLIENT and value not in (None, False):
            notes.setdefault(path, f"{path} is {value}: clients must prepare their points in this way")
    return list(notes.values())


def refusal(rule: Rule, path: str, value: Any) -> str:
    """Why the value cannot be converted; empty if it can."""
    if rule.what == "only" and value not in [_plain(one) for one in rule.values]:
        words = " or ".join(str(word) for word in rule.values)
        return f"{path} is {value}; only {words} can be converted" + (f": {rule.reason}" if rule.reason else "")
    if rule.what == "unset" and value not in (None, False, []):
        return f"{path} is {value}: {rule.reason}"
    return ""


def walk(value: Any, path: str = "") -> Iterator[Tuple[str, Any]]:
    """Every value that is not a dict, with the path of its key. A dict in a list has the list's path."""
    if isinstance(value, dict):
        for key in sorted(value, key=lambda key: str(key).lower() not in ("name", "type")):
            yield from walk(value[key], f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)) and any(isinstance(item, dict) for item in value):
        for item in value:
            yield from walk(item, path)
    else:
        yield path, _plain(value)


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
